"""Table 3: share of ARC puzzles solved by HRM, by scaling rule and number of votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from deeploop.reporting.cells import Cell, Place, Sample, paired
from deeploop.reporting.exhibits import Drawing, Exhibit, Fact, Group, Table
from deeploop.reporting.names import rule_name
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
    beside: Mapping[tuple[str, int], Cell]
    """(name, votes) -> cell, of runs that the paper does not have."""


def votes_table(runs: Sequence[PlacedRun], beside: Sequence[str] = ()) -> VotesTable:
    """Arrange votes into the cells of Table 3; the runs at the addresses `beside` are apart."""
    paper = [run for run in runs if run.address not in beside]
    votes = _columns(runs)
    rules = ordered([run.cell["rule"] for run in paper], RULES)
    cells = {
        (rule, count): _cell([run for run in paper if run.cell["rule"] == rule], rule, count)
        for rule in rules
        for count in votes
    }
    others: dict[str, list[PlacedRun]] = {}
    for run in runs:
        if run.address in beside:
            others.setdefault(_label(run), []).append(run)
    return VotesTable(
        measured=tuple((run, run.vote()) for run in paper if run.done),
        rules=rules,
        votes=votes,
        cells=cells,
        gaps=tuple(_gap(cells, count) for count in votes) if set(RULES) <= set(rules) else (),
        beside={(name, v): _cell(found, name, v) for name, found in others.items() for v in votes},
    )


def _columns(runs: Sequence[PlacedRun]) -> tuple[int, ...]:
    counts = {count for run in runs if run.done for count in run.vote().votes}
    return tuple(sorted(counts or published().arc_votes.differences))


def _label(run: PlacedRun) -> str:
    """Return how a run that the paper lacks is named."""
    rule = rule_name(run.cell["rule"])
    return f"Looped GPT, {rule}, R = {run.cell['loops']}" if "loops" in run.cell else f"HRM, {rule}"


def _cell(runs: Sequence[PlacedRun], rule: str, votes: int) -> Cell:
    found = [(run, run.vote()) for run in runs if run.done]
    return Cell(
        where={"rule": rule, "votes": votes},
        samples=tuple(_sample(run, vote, votes) for run, vote in found if votes in vote.votes),
        published=published().voted(rule, votes),
        pending=len(runs) - len(found),
    )


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
    groups = [Group(label="", rows=tuple(rows))]
    if table.beside:
        names = tuple(dict.fromkeys(name for name, _ in table.beside))
        more = rule_rows(names, table.votes, table.beside, STYLE)
        groups.append(Group(label="Beyond the paper", rows=tuple(more)))
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
            groups=tuple(groups),
        ),
        drawings=drawings,
        findings=_findings(table),
        notes=_notes(puzzles),
        facts=tuple(Fact(label="ARC puzzles voted on", value=str(count)) for count in puzzles),
        cells=(*table.cells.values(), *table.gaps, *table.beside.values()),
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
