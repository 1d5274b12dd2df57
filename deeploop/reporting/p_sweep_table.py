"""The p-sweep in numbers: what fraction of seeds trains at each exponent p, and how well.

Outcomes near the edge of stability are bimodal: a seed trains or sits at the unigram floor. So
the fraction of seeds that train is shown for each p, and means are of the seeds that train.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from deeploop.reporting.cells import Cell, Sample
from deeploop.reporting.entries import (
    ABSENT,
    PENDING,
    interval_text,
    legend,
    number,
    sample_text,
    spread_text,
)
from deeploop.reporting.exhibits import Drawing, Entry, Exhibit, Fact, Group, Row, Table
from deeploop.reporting.names import backbone_name
from deeploop.reporting.published import PSweep, published
from deeploop.reporting.runs import PlacedRun, loss_sample

NAME = "p_sweep"
DIGITS = 3
COLUMNS = ("seeds that train", "mean of those", "every seed")


@dataclass(frozen=True)
class Exponent:
    """One p: its runs beside the published mean."""

    p: float
    cell: Cell

    @property
    def trained(self) -> int:
        """How many seeds train."""
        return sum(sample.trained for sample in self.cell.samples)

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return len(self.cell.samples)

    @property
    def fraction(self) -> str:
        """Trained seeds of all seeds."""
        return f"{self.trained} of {self.seeds}"


@dataclass(frozen=True)
class Sweep:
    """The numbers of the p-sweep, by rising p."""

    backbone: str
    loops: int
    floor: float | None
    """Unigram floor of the runs' validation tokens, nats."""
    exponents: tuple[Exponent, ...]


def sweep(runs: Sequence[PlacedRun]) -> Sweep:
    """Arrange trainings by p; they share backbone and R."""
    paper = published().p_sweep
    by_p: dict[float, list[Sample]] = {}
    pending: Counter[float] = Counter()
    floor = None
    for run in sorted(runs, key=lambda run: (run.cell["p"], run.cell["seed"])):
        samples = by_p.setdefault(run.cell["p"], [])
        if not run.done:
            pending[run.cell["p"]] += 1
            continue
        metrics = run.training()
        samples.append(loss_sample(run, metrics))
        floor = metrics.unigram_floor if floor is None else floor
    exponents = tuple(
        Exponent(
            p,
            Cell(
                where={"p": p},
                samples=tuple(samples),
                published=paper.trained_mean.get(p),
                pending=pending[p],
            ),
        )
        for p, samples in by_p.items()
    )
    return Sweep(runs[0].cell["backbone"], runs[0].cell["loops"], floor, exponents)


def exhibit(found: Sweep, drawings: tuple[Drawing, ...]) -> Exhibit:
    """Return the sweep with what these runs show and what a reader must know."""
    paper = published().p_sweep
    cells = tuple(exponent.cell for exponent in found.exponents)
    return Exhibit(
        name=NAME,
        title="Stability against the exponent p",
        source=paper.source,
        about=f"Validation loss of the {backbone_name(found.backbone)} backbone at R = "
        f"{found.loops} against the exponent p of α = (2N)ᵖ, β = (8N)⁻ᵖ. Each marker is one seed. "
        "A run that does not get below the unigram floor has learned token frequencies at most.",
        table=Table(
            corner="Exponent",
            columns=COLUMNS,
            groups=(Group(label="", rows=tuple(_row(e, paper) for e in found.exponents)),),
            detail_label="95 % interval",
            notes=legend(sample for cell in cells for sample in cell.samples),
        ),
        drawings=drawings,
        findings=_findings(found),
        notes=_notes(found.backbone, paper),
        facts=_facts(found),
        cells=cells,
    )


def _row(exponent: Exponent, paper: PSweep) -> Row:
    cell, mean = exponent.cell, exponent.cell.trained.mean
    difference = None if mean is None or cell.published is None else mean - cell.published
    runs = tuple(sample.run for sample in cell.samples)
    entries = (
        _fraction_entry(exponent, paper),
        Entry(
            text=number(mean, DIGITS) or ABSENT,
            spread=spread_text(cell.trained, DIGITS),
            published=number(cell.published, 2),
            difference=number(difference, DIGITS, signed=True),
            detail=interval_text(cell.trained, DIGITS),
            sort=mean,
            runs=tuple(sample.run for sample in cell.samples if sample.trained),
        ),
        Entry(
            text=", ".join(sample_text(sample, DIGITS) for sample in cell.samples),
            sort=cell.spread.low,
            runs=runs,
        ),
    )
    return Row(label=f"p = {exponent.p:.2f}", entries=entries)


def _fraction_entry(exponent: Exponent, paper: PSweep) -> Entry:
    expected = paper.fraction(exponent.p) or ""
    pending = exponent.cell.pending
    if not exponent.seeds:
        return Entry(text=PENDING if pending else ABSENT, published=expected, mark="pending")
    return Entry(
        text=exponent.fraction,
        detail=f"{pending} pending" if pending else "",
        published=expected,
        sort=exponent.trained / exponent.seeds,
        mark="" if exponent.trained else "floor",
        runs=tuple(sample.run for sample in exponent.cell.samples),
    )


def _findings(found: Sweep) -> tuple[str, ...]:
    """Say at which p all, some and no seeds train."""
    at: dict[str, list[str]] = {"all train": [], "some train": [], "none trains": []}
    known = [exponent for exponent in found.exponents if exponent.seeds]
    if not known:
        return ()
    for exponent in known:
        every, none = exponent.trained == exponent.seeds, exponent.trained == 0
        words = "all train" if every else "none trains" if none else "some train"
        at[words].append(f"{exponent.p:g}")
    parts = [f"{words} at p = {', '.join(values)}" for words, values in at.items() if values]
    seeds = sorted({exponent.seeds for exponent in known})
    counts = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return (f"Seeds at each p: {counts}. Of them {'; '.join(parts)}.",)


def _notes(backbone: str, paper: PSweep) -> tuple[str, ...]:
    unpublished = (
        "The paper prints the means of the seeds that train and whether all, some or no seeds "
        "fail; its markers are not published as numbers."
    )
    if backbone == paper.backbone:
        return (unpublished,)
    return (
        unpublished,
        f"The paper's sweep is of {backbone_name(paper.backbone)} on FineWeb-Edu, whose unigram "
        f"floor is {paper.unigram_floor} nats: the losses beside each other are of different "
        "tokens. What can be compared is which p train.",
    )


def _facts(found: Sweep) -> tuple[Fact, ...]:
    trained = sum(exponent.trained for exponent in found.exponents)
    seeds = sum(exponent.seeds for exponent in found.exponents)
    if not seeds:
        return ()
    facts = (Fact(label="p-sweep seeds that train", value=f"{trained}/{seeds}"),)
    if found.floor is None:
        return facts
    return (*facts, Fact(label="unigram floor, nats", value=number(found.floor, 2)))
