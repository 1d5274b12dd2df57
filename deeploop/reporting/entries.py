"""From a cell's numbers to the text its table shows: digits, signs, marks, spread."""

from __future__ import annotations

from collections.abc import Iterable

from deeploop.reporting.cells import VALIDATION, Cell, Sample, Spread
from deeploop.reporting.exhibits import Entry

ABSENT = "—"
"""Where the plan has no run."""

PENDING = "pending"
"""Where the plan has runs and none has a result yet."""

FLOOR, DIVERGED, TAIL, EXTERNAL = "†", "‡", "§", "¶"

LEGEND = {
    FLOOR: f"{FLOOR} did not get below the unigram floor: it learned token frequencies at most.",
    DIVERGED: f"{DIVERGED} diverged.",
    TAIL: f"{TAIL} mean train loss of the last 50 steps, for want of a validation after warm-up.",
    EXTERNAL: f"{EXTERNAL} external: a checkpoint from elsewhere, not trained here.",
}


def number(value: float | None, digits: int, signed: bool = False) -> str:
    """Write a number with a true minus sign; the empty string for None."""
    if value is None:
        return ""
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    return text.replace("-", "−")


def spread_text(spread: Spread, digits: int) -> str:
    """Write `± standard deviation (n)`; nothing for a single value."""
    return "" if spread.std is None else f"± {number(spread.std, digits)} (n={spread.n})"


def interval_text(spread: Spread, digits: int, signed: bool = False) -> str:
    """Write the mean's 95 % interval; nothing for a single value."""
    if spread.interval is None:
        return ""
    low, high = (number(end, digits, signed) for end in spread.interval)
    return f"95 %: {low} to {high}"


def marks(sample: Sample) -> str:
    """Return the marks that go with a run's number."""
    outcome = {"floor": FLOOR, "diverged": DIVERGED}.get(sample.outcome, "")
    return outcome + {VALIDATION: "", "external": EXTERNAL}.get(sample.reported, TAIL)


def sample_text(sample: Sample, digits: int, signed: bool = False) -> str:
    """Write one run's number with its marks."""
    return (number(sample.value, digits, signed) or "no value") + marks(sample)


def cell_entry(cell: Cell, digits: int, signed: bool = False, best: bool = False) -> Entry:
    """Return what a table shows for a cell: mean, spread, n, every seed, published, difference."""
    published = number(cell.published, digits, signed)
    if not cell.samples and cell.pending:
        return Entry(text=PENDING, published=published, mark="pending")
    if not cell.samples:
        return Entry(text=ABSENT, published=published, mark="absent")
    spread = cell.spread
    several = len(cell.samples) > 1
    each = ", ".join(sample_text(s, digits, signed) for s in cell.samples)
    stuck = not signed and not any(s.trained for s in cell.samples)
    return Entry(
        text=(number(spread.mean, digits, signed) or "no value") if several else each,
        spread=spread_text(spread, digits) if several else _error_text(cell.samples[0], digits),
        detail=_detail(cell, each if several else "", digits, signed),
        published=published,
        difference=number(cell.difference, digits, signed=True),
        sort=spread.mean,
        mark="best" if best else "floor" if stuck else "",
        runs=tuple(s.run for s in cell.samples),
    )


def _error_text(sample: Sample, digits: int) -> str:
    return "" if sample.stderr is None else f"± {number(sample.stderr, digits)}"


def _detail(cell: Cell, each: str, digits: int, signed: bool) -> str:
    """Return every seed, the interval of their mean, and how many runs are still to come."""
    pending = f"{cell.pending} pending" if cell.pending else ""
    seeds = each + _fraction(cell) if each else ""
    alike = len({sample.outcome for sample in cell.samples}) == 1  # a mean of two kinds has none
    interval = interval_text(cell.spread, digits, signed) if each and alike else ""
    return "; ".join(filter(None, (seeds, interval, pending)))


def _fraction(cell: Cell) -> str:
    """Say how many runs trained where only some did: their mean is of two kinds of outcome."""
    trained = sum(s.trained for s in cell.samples)
    mixed = 0 < trained < len(cell.samples)
    return f" ({trained} of {len(cell.samples)} trained)" if mixed else ""


def legend(samples: Iterable[Sample]) -> tuple[str, ...]:
    """Return the notes that explain the marks that `samples` carry."""
    used = {mark for sample in samples for mark in marks(sample)}
    return tuple(text for mark, text in LEGEND.items() if mark in used)
