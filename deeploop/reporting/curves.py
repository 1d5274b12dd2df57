"""Training curves of every run: thinned as data for the page, drawn as one panel a group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from deeploop.reporting import figures, palette
from deeploop.reporting.artifacts import json_text, write_exhibit
from deeploop.reporting.exhibits import Drawing, Exhibit
from deeploop.reporting.names import backbone_name, rule_name, slug
from deeploop.reporting.record import Record
from deeploop.reporting.runs import History, PlacedRun, TrainPoint

NAME = "training_curves"
DATA_FILE = "training_curves-data.json"
POINTS = 160
"""Points a curve is thinned to: what a screen can show."""

SPECTRUM = (
    palette.FAILED,
    palette.BASE,
    palette.OTHERS[2],
    palette.OTHERS[0],
    palette.DEEPLOOP,
    palette.OTHERS[1],
    palette.OTHERS[3],
)
"""Colours in the order of the rainbow, for values that have an order (p)."""


_GROUPS = {"table1": "runs of Table 1", "p_sweep": "runs of the p-sweep", "table3": "HRM"}


class Curve(Record):
    """One run's curves. Lists are parallel, one entry a kept point."""

    run: str
    label: str
    groups: tuple[str, ...]
    series: str
    """Runs that differ in their seed only share it."""
    seed: int
    step: tuple[int, ...]
    tokens: tuple[int, ...]
    loss: tuple[float | None, ...]
    """Train loss, nats per token; means over the steps that a point stands for."""
    learning_rate: tuple[float | None, ...]
    grad_norm: tuple[float | None, ...]
    validation_step: tuple[int, ...]
    validation_loss: tuple[float | None, ...]


class Curves(Record):
    """The page's data file."""

    curves: tuple[Curve, ...]


def build(runs: Sequence[PlacedRun], folder: Path) -> None:
    """Write the curves' data and figures into `folder`."""
    curves = [_curve(run, run.history()) for run in runs]
    drawings = []
    with figures.style():
        for group in dict.fromkeys(group for curve in curves for group in curve.groups):
            drawings.append(_draw(group, [c for c in curves if group in c.groups], folder))
    data = Curves(curves=tuple(curves)).model_dump(mode="json")
    (folder / DATA_FILE).write_text(json_text(data), encoding="utf-8", newline="\n")
    exhibit = Exhibit(
        name=NAME,
        title="Training curves",
        source="ours: the paper prints none",
        about="Train loss of every run, each point the mean of the logged steps it stands for. "
        "One line a seed.",
        drawings=tuple(drawings),
    )
    write_exhibit(exhibit, folder)


def _curve(run: PlacedRun, history: History) -> Curve:
    points = [_mean_point(part) for part in _parts(history.train, POINTS)]
    return Curve(
        run=run.address,
        label=run.address.split("/", 1)[1],
        groups=tuple(run.cell["groups"]),
        series=_series(run),
        seed=run.cell["seed"],
        step=tuple(point.step for point in points),
        tokens=tuple(point.tokens for point in points),
        loss=tuple(_short(point.loss) for point in points),
        learning_rate=tuple(_short(point.learning_rate) for point in points),
        grad_norm=tuple(_short(point.grad_norm) for point in points),
        validation_step=tuple(point.step for point in history.validation),
        validation_loss=tuple(_short(point.loss) for point in history.validation),
    )


def _series(run: PlacedRun) -> str:
    cell = run.cell
    rule = rule_name(cell["scaling"]) if cell.get("scaling") else f"p = {cell['p']:g}"
    where = [backbone_name(cell["backbone"])] if cell.get("backbone") else []
    loops = [f"R = {cell['loops']}"] if cell.get("loops") else []
    return ", ".join([*where, rule, *loops])


def _parts(points: Sequence[TrainPoint], count: int) -> list[Sequence[TrainPoint]]:
    """Cut `points` into at most `count` runs of neighbours, as equal in length as can be."""
    parts = min(count, len(points))
    bounds = [len(points) * index // parts for index in range(parts + 1)] if parts else []
    return [points[start:end] for start, end in pairwise(bounds)]


def _mean_point(points: Sequence[TrainPoint]) -> TrainPoint:
    """Return one point for several: the last one's place, the mean of what is finite."""

    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    return TrainPoint(
        step=points[-1].step,
        tokens=points[-1].tokens,
        loss=mean([p.loss for p in points]),
        learning_rate=mean([p.learning_rate for p in points]),
        grad_norm=mean([p.grad_norm for p in points]),
    )


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def _draw(group: str, curves: Sequence[Curve], folder: Path) -> Drawing:
    (axes,) = figures.panels()
    names = list(dict.fromkeys(curve.series for curve in curves))
    for position, series in enumerate(names):
        color = SPECTRUM[position * (len(SPECTRUM) - 1) // max(1, len(names) - 1)]
        for index, curve in enumerate(c for c in curves if c.series == series):
            label = series if index == 0 else None
            axes.plot(curve.step, _gaps(curve.loss), color=color, linewidth=1.1, label=label)
    title = f"Train loss: {_GROUPS.get(group, group)}"
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.set_ylabel("train loss")
    axes.legend(fontsize=7.5)
    name = f"{NAME}-{slug(group)}"
    figures.save(axes, folder, name)
    ends = "; ".join(f"{c.label} {c.loss[-1]:.3f}" for c in curves if c.loss and c.loss[-1])
    return Drawing(name=name, title=title, alt=f"Train loss against step. Last values: {ends}.")


def _gaps(values: Sequence[float | None]) -> list[float]:
    """Return `values` with NaN, which leaves a gap in a line, for None."""
    return [float("nan") if value is None else value for value in values]
