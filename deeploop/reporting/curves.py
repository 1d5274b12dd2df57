"""Training curves of every run: thinned as data for the page, drawn as one panel a group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from deeploop.reporting import figures, palette
from deeploop.reporting.artifacts import json_text, write_exhibit
from deeploop.reporting.cells import Place
from deeploop.reporting.exhibits import Drawing, Exhibit
from deeploop.reporting.names import backbone_name, rule_name, slug
from deeploop.reporting.record import Record
from deeploop.reporting.runs import History, PlacedRun

NAME = "training_curves"
DATA_FILE = "training_curves-data.json"
POINTS = 160
"""Points a curve is thinned to: what a screen can show."""

_GROUPS = {"table1": "runs of Table 1", "p_sweep": "runs of the p-sweep", "table3": "HRM"}

Values = tuple[float | None, ...]


class Curve(Record):
    """One run's curves. Lists are parallel, one entry a kept point."""

    run: str
    """`stage/name`."""
    groups: tuple[str, ...]
    where: Place
    """Backbone, scaling, p, loops, seed; or rule and seed."""
    per_step: float | None
    """Tokens (or puzzles) an optimizer step."""
    unit: str
    """What `per_step` counts: `tokens` or `puzzles`."""
    step: tuple[int, ...]
    """Last of the steps that a point stands for; the columns below are means over them."""
    loss: Values
    """Train loss."""
    learning_rate: Values
    grad_norm: Values
    """Before clipping."""
    validation_step: tuple[int, ...]
    validation_loss: Values


class Curves(Record):
    """The page's data file."""

    curves: tuple[Curve, ...]


def build(runs: Sequence[PlacedRun], folder: Path) -> Path:
    """Write the curves' data and figures into `folder`, made if need be, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    curves = [_curve(run, run.history()) for run in runs if run.done]
    groups = dict.fromkeys(group for curve in curves for group in curve.groups)
    with figures.style():
        drawings = tuple(
            _draw(group, [curve for curve in curves if group in curve.groups], folder)
            for group in groups
        )
    data = Curves(curves=tuple(curves)).model_dump(mode="json")
    (folder / DATA_FILE).write_text(json_text(data), encoding="utf-8", newline="\n")
    exhibit = Exhibit(
        name=NAME,
        title="Training curves",
        source="ours: the paper prints none",
        about="Train loss of every run, one line a seed. Each point is the mean of the steps it "
        "stands for.",
        drawings=drawings,
    )
    write_exhibit(exhibit, folder)
    return folder


def _curve(run: PlacedRun, history: History) -> Curve:
    bounds = _bounds(len(history.step), POINTS)
    seen = run.seen()
    return Curve(
        run=run.address,
        groups=tuple(run.cell["groups"]),
        where={k: v for k, v in run.cell.items() if k != "groups" and v is not None},
        per_step=seen.per_step,
        unit="tokens" if seen.tokens is not None else "puzzles",
        step=tuple(history.step[end - 1] for _, end in bounds),
        loss=_means(history.loss, bounds),
        learning_rate=_means(history.learning_rate, bounds),
        grad_norm=_means(history.grad_norm, bounds),
        validation_step=tuple(found.step for found in history.validations),
        validation_loss=tuple(_short(found.loss) for found in history.validations),
    )


def _bounds(length: int, count: int) -> list[tuple[int, int]]:
    """Cut `length` steps into at most `count` runs of neighbours, as equal in length as can be."""
    parts = min(count, length)
    return list(pairwise(length * index // parts for index in range(parts + 1))) if parts else []


def _means(values: Values, bounds: Sequence[tuple[int, int]]) -> Values:
    """Return the mean of what is finite in each part; empty for a column that is not there."""
    parts = ([v for v in values[start:end] if v is not None] for start, end in bounds)
    return tuple(_short(fmean(part)) if part else None for part in parts) if values else ()


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def _series(curve: Curve, group: str) -> str:
    """Return what runs have in common that differ in their seed only."""
    where = curve.where
    if group == "p_sweep":
        return f"p = {where['p']:.2f}"
    backbone = [backbone_name(str(where["backbone"]))] if "backbone" in where else []
    loops = [f"R = {where['loops']}"] if "loops" in where else []
    return ", ".join([*backbone, rule_name(str(where.get("scaling", where.get("rule")))), *loops])


def _draw(group: str, curves: Sequence[Curve], folder: Path) -> Drawing:
    (axes,) = figures.panels()
    by_series: dict[str, list[Curve]] = {}
    for curve in curves:
        by_series.setdefault(_series(curve, group), []).append(curve)
    names = sorted(by_series) if group == "p_sweep" else list(by_series)
    for color, name in zip(palette.spectrum(len(names)), names, strict=True):
        for index, curve in enumerate(by_series[name]):
            label = "_" if index else name  # a seed more is not named again
            axes.plot(curve.step, _gaps(curve.loss), color=color, linewidth=1.1, label=label)
    title = f"Train loss: {_GROUPS.get(group, group)}"
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.set_ylabel("train loss")
    figures.legend(axes, fontsize=7.5)
    file = f"{NAME}-{slug(group)}"
    figures.save(axes, folder, file)
    return Drawing(name=file, title=title, alt=_in_words(curves))


def _gaps(values: Values) -> list[float]:
    """Return `values` with NaN, which leaves a gap in a line, for None."""
    return [float("nan") if value is None else value for value in values]


def _in_words(curves: Sequence[Curve]) -> str:
    ends = (
        f"{curve.run.split('/', 1)[1]} {curve.loss[-1]:.3f}"
        for curve in curves
        if curve.loss and curve.loss[-1] is not None
    )
    return f"Train loss against step, one line a run. Last values: {', '.join(ends)}."
