"""Figure 6: loss against the exponent p, one marker a seed, the published sweep beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from deeploop.reporting import figures, palette
from deeploop.reporting.exhibits import Drawing
from deeploop.reporting.names import backbone_name
from deeploop.reporting.p_sweep_table import NAME, Exponent, Sweep
from deeploop.reporting.published import published


def draw(found: Sweep, folder: Path) -> tuple[Drawing, ...]:
    """Draw the two panels into `folder`."""
    with figures.style():
        measured = any(exponent.seeds for exponent in found.exponents)
        return (*((_measured(found, folder),) if measured else ()), _published(folder))


def _measured(found: Sweep, folder: Path) -> Drawing:
    (axes,) = figures.panels()
    if found.floor is not None:
        figures.floor_line(axes, found.floor)
    means = [(e.p, mean) for e in found.exponents if (mean := e.cell.trained.mean) is not None]
    axes.plot([p for p, _ in means], [mean for _, mean in means], color=palette.DEEPLOOP)
    good, bad = _points(found.exponents, trained=True), _points(found.exponents, trained=False)
    if good[0]:
        figures.dots(axes, *good, palette.DEEPLOOP, "o", "seed that trains")
    if bad[0]:
        figures.crosses(axes, *bad, "seed that does not train")
    for exponent in found.exponents:
        _trained_count(axes, exponent)
    title = f"{backbone_name(found.backbone)}, R = {found.loops}: this build"
    _finish(axes, title, [exponent.p for exponent in found.exponents])
    figures.save(axes, folder, NAME)
    return Drawing(name=NAME, title=title, alt=_in_words(found))


def _points(exponents: Sequence[Exponent], trained: bool) -> tuple[list[float], list[float]]:
    """Return p and loss of every seed that does, or does not, train."""
    points = [
        (exponent.p, sample.value)
        for exponent in exponents
        for sample in exponent.cell.samples
        if sample.trained is trained and sample.value is not None
    ]
    return [p for p, _ in points], [value for _, value in points]


def _trained_count(axes: Axes, exponent: Exponent) -> None:
    """Write the trained fraction above a p that has runs."""
    if not exponent.seeds:
        return
    axes.annotate(
        f"{exponent.trained}/{exponent.seeds}",
        (exponent.p, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(0, -2),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=8.5,
        color=palette.DEEPLOOP if exponent.trained else palette.FAILED,
    )


def _published(folder: Path) -> Drawing:
    paper = published().p_sweep
    (axes,) = figures.panels()
    figures.floor_line(axes, paper.unigram_floor)
    x, y = list(paper.trained_mean), list(paper.trained_mean.values())
    figures.published_line(axes, x, y, palette.DEEPLOOP, "o", "mean of the seeds that train")
    failing = [*paper.all_seeds_fail, *paper.some_seeds_fail]
    figures.crosses(axes, failing, [paper.unigram_floor] * len(failing), "all or some seeds fail")
    title = f"Published: {backbone_name(paper.backbone)}, R = {paper.loops}"
    _finish(axes, title, paper.p)
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
    axes.set_xticks(list(ticks), [f"{p:g}" for p in ticks])
    axes.margins(y=0.16)
    figures.legend(axes)


def _in_words(found: Sweep) -> str:
    words = "; ".join(
        f"p = {exponent.p:g}: {exponent.fraction} train"
        + (f", mean {mean:.3f}" if (mean := exponent.cell.trained.mean) is not None else "")
        for exponent in found.exponents
    )
    return f"Loss against p, one marker a seed. {words}."
