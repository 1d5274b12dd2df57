"""Figure 6: loss against the residual-scaling exponent p, one marker a seed, never a mean alone.

Outcomes near the edge of stability are bimodal: a seed trains or sits at the unigram floor. So
the fraction of seeds that train is shown for each p, and means are of the seeds that train.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from deeploop.reporting import figures, palette
from deeploop.reporting.artifacts import write_exhibit
from deeploop.reporting.cells import Cell, Sample
from deeploop.reporting.entries import ABSENT, legend, number, sample_text, spread_text
from deeploop.reporting.exhibits import Drawing, Entry, Exhibit, Fact, Group, Row, Table
from deeploop.reporting.names import backbone_name
from deeploop.reporting.published import PSweep, published
from deeploop.reporting.runs import PlacedRun, loss_sample

NAME = "p_sweep"
DIGITS = 3
COLUMNS = ("seeds that train", "mean of those", "every seed")


def build(runs: Sequence[PlacedRun], folder: Path) -> None:
    """Write the sweep's table and figure into `folder`; `runs` share backbone and loops."""
    cells = _cells(runs)
    floor = next((f for run in runs if (f := run.metrics().unigram_floor) is not None), None)
    paper = published().p_sweep
    backbone, loops = runs[0].cell["backbone"], runs[0].cell["loops"]
    with figures.style():
        drawings = (
            _draw(cells, floor, f"{backbone_name(backbone)}, R = {loops}: this build", folder),
            _draw_published(paper, folder),
        )
    about = (
        f"Validation loss of the {backbone_name(backbone)} backbone at R = {loops} against the "
        "exponent p of α = (2N)^p, β = (8N)^−p. Each marker is one seed. A run that never leaves "
        "the unigram floor has learned token frequencies and no more."
    )
    write_exhibit(
        Exhibit(
            name=NAME,
            title="Stability against the exponent p",
            source=paper.source,
            about=about,
            table=_table(cells, paper),
            drawings=drawings,
            findings=_findings(cells),
            notes=_notes(backbone, paper),
            facts=_facts(cells, floor),
            cells=tuple(cells),
        ),
        folder,
    )


def _cells(runs: Sequence[PlacedRun]) -> list[Cell]:
    paper = published().p_sweep
    by_p: dict[float, list[Sample]] = {}
    for run in sorted(runs, key=lambda run: (run.cell["p"], run.cell["seed"])):
        by_p.setdefault(run.cell["p"], []).append(loss_sample(run, run.metrics()))
    return [
        Cell(where={"p": p}, samples=tuple(samples), published=paper.trained_mean.get(p))
        for p, samples in by_p.items()
    ]


def _table(cells: Sequence[Cell], paper: PSweep) -> Table:
    return Table(
        corner="Exponent",
        columns=COLUMNS,
        groups=(Group(label="", rows=tuple(_row(cell, paper) for cell in cells)),),
        notes=legend(sample for cell in cells for sample in cell.samples),
    )


def _row(cell: Cell, paper: PSweep) -> Row:
    trained, total = sum(s.trained for s in cell.samples), len(cell.samples)
    mean, p = cell.trained.mean, float(cell.where["p"])
    difference = None if mean is None or cell.published is None else mean - cell.published
    runs = tuple(s.run for s in cell.samples)
    return Row(
        label=f"p = {p:.2f}",
        entries=(
            Entry(
                text=f"{trained} of {total}",
                published=paper.fraction(p) or "",
                sort=trained / total,
                mark="" if trained else "floor",
                runs=runs,
            ),
            Entry(
                text=number(mean, DIGITS) or ABSENT,
                spread=spread_text(cell.trained, DIGITS),
                published=number(cell.published, 2),
                difference=number(difference, DIGITS, signed=True),
                sort=mean,
                runs=tuple(s.run for s in cell.samples if s.trained),
            ),
            Entry(
                text=", ".join(sample_text(s, DIGITS) for s in cell.samples),
                sort=cell.spread.low,
                runs=runs,
            ),
        ),
    )


def _findings(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Say at which p all, some and no seeds train."""
    wanted = (
        ("all seeds train", lambda good, total: good == total),
        ("some do", lambda good, total: 0 < good < total),
        ("none does", lambda good, total: good == 0),
    )
    parts = []
    for words, test in wanted:
        at = [
            f"{cell.where['p']:g}"
            for cell in cells
            if test(sum(s.trained for s in cell.samples), len(cell.samples))
        ]
        if at:
            parts.append(f"{words} at p = {', '.join(at)}")
    seeds = sorted({len(cell.samples) for cell in cells})
    counts = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return (f"With {counts} seeds at each p: {'; '.join(parts)}.",)


def _notes(backbone: str, paper: PSweep) -> tuple[str, ...]:
    unpublished = "The paper prints the means of the seeds that train and whether all, some or no "
    unpublished += "seeds fail; its markers are not published as numbers."
    if backbone == paper.backbone:
        return (unpublished,)
    return (
        unpublished,
        f"The paper's sweep is of {backbone_name(paper.backbone)} on FineWeb-Edu, whose unigram "
        f"floor is {paper.unigram_floor} nats: the losses beside each other are of different "
        "tokens. What can be compared is which p train.",
    )


def _facts(cells: Sequence[Cell], floor: float | None) -> tuple[Fact, ...]:
    samples = [s for cell in cells for s in cell.samples]
    trained = Fact(
        label="p-sweep seeds that train", value=f"{sum(s.trained for s in samples)}/{len(samples)}"
    )
    if floor is None:
        return (trained,)
    return (trained, Fact(label="unigram floor, nats", value=number(floor, 2)))


def _draw(cells: Sequence[Cell], floor: float | None, title: str, folder: Path) -> Drawing:
    (axes,) = figures.panels()
    good = [(float(c.where["p"]), s) for c in cells for s in c.samples if s.trained]
    bad = [(float(c.where["p"]), s) for c in cells for s in c.samples if not s.trained]
    means = [(float(c.where["p"]), c.trained.mean) for c in cells if c.trained.mean is not None]
    if floor is not None:
        figures.floor_line(axes, floor)
    axes.plot([p for p, _ in means], [m for _, m in means], color=palette.DEEPLOOP)
    _markers(axes, good, bad)
    _trained_counts(axes, cells)
    _finish(axes, title, [float(c.where["p"]) for c in cells])
    figures.save(axes, folder, NAME)
    words = "; ".join(
        f"p = {c.where['p']:g}: {sum(s.trained for s in c.samples)} of {len(c.samples)} train"
        + (f", mean {c.trained.mean:.3f}" if c.trained.mean is not None else "")
        for c in cells
    )
    return Drawing(name=NAME, title=title, alt=f"Loss against p, one marker a seed. {words}.")


def _markers(
    axes: Axes, good: Sequence[tuple[float, Sample]], bad: Sequence[tuple[float, Sample]]
) -> None:
    """Draw circles for seeds that train and crosses for those that do not."""
    shown = [(p, s.value) for p, s in good if s.value is not None]
    figures.dots(
        axes,
        [p for p, _ in shown],
        [v for _, v in shown],
        palette.DEEPLOOP,
        "o",
        "seed that trains",
    )
    stuck = [(p, s.value) for p, s in bad if s.value is not None]
    if stuck:
        figures.crosses(
            axes, [p for p, _ in stuck], [v for _, v in stuck], "seed that does not train"
        )


def _trained_counts(axes: Axes, cells: Sequence[Cell]) -> None:
    """Write the trained fraction above each p."""
    for cell in cells:
        good = sum(s.trained for s in cell.samples)
        axes.annotate(
            f"{good}/{len(cell.samples)}",
            (float(cell.where["p"]), 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, -2),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=9,
            color=palette.DEEPLOOP if good else palette.FAILED,
        )


def _draw_published(paper: PSweep, folder: Path) -> Drawing:
    (axes,) = figures.panels()
    figures.floor_line(axes, paper.unigram_floor)
    x, y = list(paper.trained_mean), list(paper.trained_mean.values())
    figures.published_line(axes, x, y, palette.DEEPLOOP, "o", "mean of the seeds that train")
    failing = [*paper.all_seeds_fail, *paper.some_seeds_fail]
    figures.crosses(axes, failing, [paper.unigram_floor] * len(failing), "all or some seeds fail")
    title = f"Published: {backbone_name(paper.backbone)}, R = {paper.loops}"
    _finish(axes, title, list(paper.p))
    name = f"{NAME}-published"
    figures.save(axes, folder, name)
    words = ", ".join(f"{loss:.2f} at p = {p:g}" for p, loss in paper.trained_mean.items())
    fails = ", ".join(f"{p:g}" for p in paper.all_seeds_fail)
    return Drawing(
        name=name,
        title=title,
        alt=f"The paper's means of the seeds that train: {words}; no seed trains at p = {fails}.",
    )


def _finish(axes: Axes, title: str, ticks: Sequence[float]) -> None:
    axes.set_title(title)
    axes.set_xlabel("exponent p")
    axes.set_ylabel("loss (nats per token)")
    axes.set_xticks(list(ticks))
    axes.margins(y=0.16)
    axes.legend()
