"""Sweeps beyond the paper as a table: the fraction of seeds that train, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from deeploop.reporting.cells import Cell
from deeploop.reporting.entries import ABSENT, PENDING, legend, number, sample_text, spread_text
from deeploop.reporting.exhibits import Entry, Exhibit, Group, Row, Table
from deeploop.reporting.names import backbone_name
from deeploop.reporting.runs import PlacedRun, loss_sample

NAME = "sweeps"
DIGITS = 3
COLUMNS = ("seeds that train", "95 percent interval", "mean of those", "every seed")
TITLES = {
    "alpha_or_beta_alone": "α or β alone",
    "beta_targets": "Matrices that β scales",
    "norm_placement": "Where the norm stands",
}
NORMAL = 1.959964
"""97.5 percent point of the normal distribution."""


def exhibit(runs: Sequence[PlacedRun], groups: Mapping[str, Sequence[str]]) -> Exhibit:
    """Return the sweeps; `groups` names the runs of each by address."""
    cells = {name: _cells(runs, addresses) for name, addresses in groups.items() if addresses}
    every = [cell for found in cells.values() for cell in found]
    return Exhibit(
        name=NAME,
        title="Beyond the paper",
        source="ours: settings that the paper leaves open",
        about="Validation loss of looped language models whose rule or backbone differs from the "
        "paper's: α = (2N)^pα with β = (8N)^−pβ, each exponent alone; the matrices that β scales; "
        "Pre-LN in place of Post-LN. A run that does not get below the unigram floor has learned "
        "token frequencies at most; means are of the seeds that train.",
        table=Table(
            corner="Setting",
            columns=COLUMNS,
            groups=tuple(
                Group(label=TITLES.get(name, name), rows=tuple(_row(cell) for cell in found))
                for name, found in cells.items()
            ),
            notes=legend(sample for cell in every for sample in cell.samples),
        ),
        findings=tuple(
            _finding(TITLES.get(name, name), found)
            for name, found in cells.items()
            if any(cell.samples for cell in found)
        ),
        cells=tuple(every),
    )


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 percent score interval (Wilson) of a fraction."""
    share, square = hits / trials, NORMAL**2
    middle = (share + square / (2 * trials)) / (1 + square / trials)
    spread = sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    half = NORMAL * spread / (1 + square / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


def _cells(runs: Sequence[PlacedRun], addresses: Sequence[str]) -> list[Cell]:
    by_setting: dict[tuple[Any, ...], list[PlacedRun]] = {}
    for run in runs:
        if run.address in addresses:
            names = ("backbone", "alpha_p", "beta_p", "loops")
            by_setting.setdefault(tuple(run.cell[name] for name in names), []).append(run)
    return [
        Cell(
            where=dict(zip(("backbone", "alpha_p", "beta_p", "loops"), setting, strict=True)),
            samples=tuple(loss_sample(run, run.training()) for run in found if run.done),
            pending=sum(not run.done for run in found),
        )
        for setting, found in sorted(by_setting.items())
    ]


def _label(cell: Cell) -> str:
    where = cell.where
    rule = f"pα = {where['alpha_p']:g}, pβ = {where['beta_p']:g}"
    return f"{backbone_name(str(where['backbone']))}, R = {where['loops']}, {rule}"


def _trained(cell: Cell) -> int:
    return sum(sample.trained for sample in cell.samples)


def _row(cell: Cell) -> Row:
    trained, seeds = _trained(cell), len(cell.samples)
    if not seeds:
        return Row(label=_label(cell), entries=(Entry(text=PENDING, mark="pending"),) * 4)
    low, high = wilson(trained, seeds)
    runs = tuple(sample.run for sample in cell.samples)
    mean = cell.trained.mean
    entries = (
        Entry(text=f"{trained} of {seeds}", sort=trained / seeds, runs=runs),
        Entry(text=f"{number(low, 2)} to {number(high, 2)}", sort=low),
        Entry(
            text=number(mean, DIGITS) or ABSENT,
            spread=spread_text(cell.trained, DIGITS),
            sort=mean,
        ),
        Entry(text=", ".join(sample_text(sample, DIGITS) for sample in cell.samples)),
    )
    return Row(label=_label(cell), entries=entries)


def _finding(title: str, cells: Sequence[Cell]) -> str:
    """Say how many seeds train, of the settings that have a result."""
    seen = [cell for cell in cells if cell.samples]
    parts = "; ".join(f"{_trained(c)} of {len(c.samples)} with {_label(c)}" for c in seen)
    return f"{title}: {parts}."
