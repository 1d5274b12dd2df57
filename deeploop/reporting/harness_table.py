"""The harness check beside what its checkpoint is said to score."""

from __future__ import annotations

from collections.abc import Sequence

from deeploop.reporting.cells import Cell, Sample
from deeploop.reporting.entries import ABSENT, PENDING, cell_entry
from deeploop.reporting.exhibits import Entry, Exhibit, Group, Row, Table
from deeploop.reporting.runs import METRICS, Output, PlacedRun, read_output

NAME = "harness"
DIGITS = 2


class HarnessMetrics(Output):
    """`metrics.json` of a harness check."""

    outcome: str
    """`passed`, `failed` or `skipped`."""
    reason: str = ""
    """Why it was skipped."""
    percent: dict[int, float] = {}
    """Number of votes -> percent of puzzles solved."""
    votes: int | None = None
    """The number of votes that decides."""
    found: float | None = None
    expected: float | None = None


def harness_metrics(run: PlacedRun) -> HarnessMetrics:
    """Read a check's `metrics.json`."""
    return read_output(run.file(METRICS), HarnessMetrics)


def exhibit(runs: Sequence[PlacedRun]) -> Exhibit:
    """Return the checks, one line each."""
    checks = [(run, harness_metrics(run) if run.done else None) for run in runs]
    votes = sorted({count for _, found in checks if found for count in found.percent})
    cells = [cell for run, found in checks for cell in _cells(run, found, votes)]
    rows = (
        _row(run, found, cells[index * len(votes) : (index + 1) * len(votes)])
        for index, (run, found) in enumerate(checks)
    )
    return Exhibit(
        name=NAME,
        title="Harness check",
        source="Section 5.3",
        about="A checkpoint that its authors published, predicted and voted on by this pipeline: "
        "percent of puzzles solved at each number of votes K, beside the published percentage. "
        "Where they agree, import, model, data, prediction and vote are the published ones.",
        table=Table(
            corner="Checkpoint",
            columns=("outcome", *(f"K = {count}" for count in votes)),
            groups=(Group(label="", rows=tuple(rows)),),
        ),
        findings=tuple(_finding(run, found) for run, found in checks if found),
        cells=tuple(cell for cell in cells if cell.samples),
    )


def _cells(run: PlacedRun, found: HarnessMetrics | None, votes: Sequence[int]) -> list[Cell]:
    percent = found.percent if found else {}
    return [
        Cell(
            where={"checkpoint": _name(run), "votes": count},
            samples=(Sample(run=run.address, seed=0, value=percent[count]),)
            if count in percent
            else (),
            published=found.expected if found and count == found.votes else None,
        )
        for count in votes
    ]


def _row(run: PlacedRun, found: HarnessMetrics | None, cells: Sequence[Cell]) -> Row:
    if found is None:
        absent = (Entry(text=ABSENT, mark="absent"),) * len(cells)
        return Row(label=_name(run), entries=(Entry(text=PENDING, mark="pending"), *absent))
    outcome = Entry(text=found.outcome, runs=(run.address,))
    return Row(label=_name(run), entries=(outcome, *(cell_entry(cell, DIGITS) for cell in cells)))


def _finding(run: PlacedRun, found: HarnessMetrics) -> str:
    if found.outcome == "skipped":
        return f"{_name(run)}: skipped, {found.reason}."
    return (
        f"{_name(run)}: {found.outcome}, {found.found} percent at K = {found.votes} where "
        f"{found.expected} is published."
    )


def _name(run: PlacedRun) -> str:
    return run.address.rpartition("/")[2]
