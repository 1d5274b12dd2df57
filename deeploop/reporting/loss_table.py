"""Table 1: validation loss by backbone, residual scaling and number of loops R."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deeploop.reporting.cells import Cell, Place, paired
from deeploop.reporting.entries import legend
from deeploop.reporting.exhibits import Drawing, Exhibit, Fact, Group, Table
from deeploop.reporting.names import backbone_name, rule_name
from deeploop.reporting.published import published
from deeploop.reporting.rule_rows import Style, gap_row, ordered, rule_rows
from deeploop.reporting.runs import PlacedRun, TrainingMetrics, loss_sample
from deeploop.reporting.units import count_range

NAME = "table1"
STYLE = Style(digits=4, best=min)
RULES = ("base", "deeploop")
"""Order of the paper's rows; other rules follow in the plan's order."""


@dataclass(frozen=True)
class Measured:
    """A training and what it reports."""

    run: PlacedRun
    metrics: TrainingMetrics


@dataclass(frozen=True)
class LossTable:
    """The numbers of Table 1, and the axes they span."""

    measured: tuple[Measured, ...]
    backbones: tuple[str, ...]
    rules: tuple[str, ...]
    loops: tuple[int, ...]
    beside: Mapping[str, str]
    """backbone -> the published backbone whose numbers stand beside it: its own, if there is."""
    cells: Mapping[tuple[str, str, int], Cell]
    """(backbone, rule, R) -> cell; a cell without a run has no samples."""
    gaps: Mapping[tuple[str, int], Cell]
    """(backbone, R) -> DeepLoop minus base; empty unless both rules are there."""

    def floor(self, backbone: str) -> float | None:
        """Return the unigram floor of a backbone of which a run ended there, in nats."""
        for m in self.measured:
            if m.run.cell["backbone"] == backbone and m.metrics.outcome == "floor":
                return m.metrics.unigram_floor
        return None


def loss_table(runs: Sequence[PlacedRun], beside: str) -> LossTable:
    """Arrange trainings into the cells of Table 1, those without a run included.

    Args:
        runs: Trainings with their cells.
        beside: Published backbone to show beside a backbone that the paper does not have.
    """
    measured = tuple(Measured(run, run.training()) for run in runs if run.done)
    pending = [run.cell for run in runs if not run.done]
    places = [run.cell for run in runs]
    paper = published()
    backbones = tuple(dict.fromkeys(place["backbone"] for place in places))
    rules = ordered([place["scaling"] for place in places], RULES)
    loops = tuple(sorted({place["loops"] for place in places}))
    counterparts = {b: b if b in paper.validation_loss.values else beside for b in backbones}
    cells = {
        (b, s, r): _cell(measured, pending, b, s, r, paper.loss(counterparts[b], s, r))
        for b in backbones
        for s in rules
        for r in loops
    }
    both = backbones if set(RULES) <= set(rules) else ()
    gaps = {(b, r): _gap(cells, b, r, counterparts[b]) for b in both for r in loops}
    return LossTable(measured, backbones, rules, loops, counterparts, cells, gaps)


def _cell(
    measured: Sequence[Measured],
    pending: Sequence[Mapping[str, Any]],
    backbone: str,
    rule: str,
    loops: int,
    beside: float | None,
) -> Cell:
    place: Place = {"backbone": backbone, "scaling": rule, "loops": loops}
    samples = tuple(
        loss_sample(m.run, m.metrics) for m in measured if place.items() <= m.run.cell.items()
    )
    missing = sum(place.items() <= cell.items() for cell in pending)
    return Cell(where=place, samples=samples, published=beside, pending=missing)


def _gap(
    cells: Mapping[tuple[str, str, int], Cell], backbone: str, loops: int, beside: str
) -> Cell:
    base, deeploop = (cells[backbone, rule, loops] for rule in RULES)
    place: Place = {"backbone": backbone, "scaling": "deeploop - base", "loops": loops}
    return paired(place, deeploop, base, published().loss_difference(beside, loops))


def exhibit(table: LossTable, drawings: tuple[Drawing, ...]) -> Exhibit:
    """Return Table 1 with what these runs show and what a reader must know."""
    metrics = [m.metrics for m in table.measured]
    return Exhibit(
        name=NAME,
        title="Validation loss",
        source=published().validation_loss.source,
        about="Validation cross-entropy in nats per token at the last step; lower is better. Where "
        "a cell has several seeds: mean ± standard deviation (number of seeds), and below it every "
        "seed and the 95 % interval of the mean (Student's t). Δ pairs runs of the same seed.",
        table=Table(
            corner="Method",
            columns=tuple(f"R = {loops}" for loops in table.loops),
            groups=tuple(_group(backbone, table) for backbone in table.backbones),
            notes=legend(sample for cell in table.cells.values() for sample in cell.samples),
        ),
        drawings=drawings,
        findings=_findings(table.measured),
        notes=_notes(table),
        facts=_facts(metrics),
        cells=(*table.cells.values(), *table.gaps.values()),
    )


def _facts(metrics: Sequence[TrainingMetrics]) -> tuple[Fact, ...]:
    if not metrics:
        return ()
    return (
        Fact(label="weights a model", value=count_range([m.parameters for m in metrics])),
        Fact(label="tokens a run", value=count_range([m.tokens for m in metrics])),
        Fact(label="steps a run", value=count_range([m.steps for m in metrics])),
    )


def _group(backbone: str, table: LossTable) -> Group:
    """Return a backbone's lines: one a rule, and the differences below them."""
    mine = {(rule, r): cell for (b, rule, r), cell in table.cells.items() if b == backbone}
    rows = rule_rows(table.rules, table.loops, mine, STYLE)
    if table.gaps:
        gaps = [table.gaps[backbone, loops] for loops in table.loops]
        rows.append(gap_row("Δ (DeepLoop − base)", gaps, STYLE))
    return Group(label=f"{backbone_name(backbone)} backbone", rows=tuple(rows))


def _findings(measured: Sequence[Measured]) -> tuple[str, ...]:
    if not measured:
        return ()
    stuck = [m.run.cell for m in measured if m.metrics.outcome != "trained"]
    trained = f"{len(measured) - len(stuck)} of {len(measured)} runs trained."
    if not stuck:
        return (trained,)
    where = ", ".join(
        f"{rule_name(cell['scaling'])} R = {cell['loops']} seed {cell['seed']}" for cell in stuck
    )
    return (f"{trained} Those that did not: {where}.",)


def _notes(table: LossTable) -> tuple[str, ...]:
    return tuple(
        f"The paper has no {backbone_name(backbone)} backbone: the published values beside it are "
        f"those of {backbone_name(beside)}, another model on other data with another tokenizer. "
        "The differences from them are arithmetic, not agreement or disagreement."
        for backbone, beside in table.beside.items()
        if backbone != beside
    )
