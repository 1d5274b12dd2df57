"""Table 3: share of ARC puzzles solved by HRM, by scaling rule and number of votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from deeploop.reporting.cells import Cell, Place, Sample, paired
from deeploop.reporting.exhibits import Drawing, Exhibit, Fact, Group, Table
from deeploop.reporting.published import published
from deeploop.reporting.rule_rows import Style, gap_row, ordered, rule_rows
from deeploop.reporting.runs import PlacedRun, VoteMetrics

NAME = "table3"
STYLE = Style(digits=2, best=max)
RULES = ("vanilla", "deeploop")


@dataclass(frozen=True)
class VotesTable:
    """The numbers of Table 3, and the axes they span."""

    measured: tuple[tuple[PlacedRun, VoteMetrics], ...]
    rules: tuple[str, ...]
    votes: tuple[int, ...]
    cells: Mapping[tuple[str, int], Cell]
    """(rule, votes) -> cell, in percent."""
    gaps: tuple[Cell, ...]
    """DeepLoop minus vanilla for each number of votes; empty unless both rules are there."""


def votes_table(runs: Sequence[PlacedRun]) -> VotesTable:
    """Arrange votes into the cells of Table 3."""
    measured = tuple((run, run.vote()) for run in runs if run.done)
    pending = [run.cell["rule"] for run in runs if not run.done]
    rules = ordered([run.cell["rule"] for run in runs], RULES)
    counts = {count for _, found in measured for count in found.votes}
    votes = tuple(sorted(counts or published().arc_votes.differences))
    cells = {
        (rule, count): _cell(measured, pending.count(rule), rule, count)
        for rule in rules
        for count in votes
    }
    both = votes if set(RULES) <= set(rules) else ()
    gaps = tuple(_gap(cells, count) for count in both)
    return VotesTable(measured, rules, votes, cells, gaps)


def _cell(
    measured: Sequence[tuple[PlacedRun, VoteMetrics]], pending: int, rule: str, votes: int
) -> Cell:
    samples = tuple(
        _sample(run, found, votes)
        for run, found in measured
        if run.cell["rule"] == rule and votes in found.votes
    )
    place: Place = {"rule": rule, "votes": votes}
    expected = published().voted(rule, votes)
    return Cell(where=place, samples=samples, published=expected, pending=pending)


def _sample(run: PlacedRun, found: VoteMetrics, votes: int) -> Sample:
    share = found.votes[votes]
    stderr = sqrt(share * (1 - share) / found.puzzles) if found.puzzles else None
    return Sample(
        run=run.address,
        seed=run.cell["seed"],
        value=100 * share,
        stderr=None if stderr is None else 100 * stderr,
    )


def _gap(cells: Mapping[tuple[str, int], Cell], votes: int) -> Cell:
    vanilla, deeploop = (cells[rule, votes] for rule in RULES)
    place: Place = {"rule": "deeploop - vanilla", "votes": votes}
    return paired(place, deeploop, vanilla, published().vote_difference(votes))


def exhibit(table: VotesTable, drawings: tuple[Drawing, ...]) -> Exhibit:
    """Return Table 3 with what a reader must know."""
    rows = rule_rows(table.rules, table.votes, table.cells, STYLE)
    if table.gaps:
        rows.append(gap_row("Δ (DeepLoop − vanilla)", table.gaps, STYLE))
    puzzles = sorted({found.puzzles for _, found in table.measured})
    return Exhibit(
        name=NAME,
        title="ARC puzzles solved by voting",
        source=published().arc_votes.source,
        about="Percent of held-out puzzles solved with K votes: each of a puzzle's test outputs is "
        "among its K most voted answers. Higher is better. ± is the standard error over "
        "puzzles for one run, the standard deviation over seeds for several. Δ pairs runs of the "
        "same seed.",
        table=Table(
            corner="Method",
            columns=tuple(f"K = {votes}" for votes in table.votes),
            groups=(Group(label="", rows=tuple(rows)),),
        ),
        drawings=drawings,
        findings=_findings(table),
        notes=_notes(puzzles),
        facts=tuple(Fact(label="ARC puzzles voted on", value=str(count)) for count in puzzles),
        cells=(*table.cells.values(), *table.gaps),
    )


def _findings(table: VotesTable) -> tuple[str, ...]:
    if not table.measured:
        return ()
    solved = max(s.value or 0.0 for cell in table.cells.values() for s in cell.samples)
    if solved == 0.0:
        return ("No run solves a held-out puzzle at any number of votes.",)
    if not table.gaps:
        return ()
    known = [gap for gap in table.gaps if gap.spread.mean is not None]
    better = [str(gap.where["votes"]) for gap in known if (gap.spread.mean or 0.0) > 0]
    where = f" (K = {', '.join(better)})" if better else ""
    return (
        f"On the mean of paired seeds DeepLoop solves more puzzles at {len(better)} of "
        f"{len(known)} numbers of votes{where}.",
    )


def _notes(puzzles: Sequence[int]) -> tuple[str, ...]:
    paper = published().arc_votes
    if puzzles in ([], [paper.puzzles]):
        return ()
    return (
        f"The paper votes over {paper.puzzles} puzzles; here one puzzle of {puzzles[0]} is "
        f"{100 / max(1, puzzles[0]):.3g} points. The published values are those of HRM trained on "
        "1,000 augmentations of every puzzle for 100,000 epochs.",
    )
