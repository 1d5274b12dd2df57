"""Figure 2: validation loss against the number of loops R, one marker a seed.

A backbone that the paper has shows the published curves in its panel. One that it does not have
gets them in a panel beside: another model's losses do not belong on its axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from deeploop.reporting import figures, palette
from deeploop.reporting.cells import Cell
from deeploop.reporting.exhibits import Drawing
from deeploop.reporting.loss_table import NAME, LossTable
from deeploop.reporting.names import backbone_name, rule_name, slug
from deeploop.reporting.published import published

DODGE = 0.16
"""How far rules stand apart at the same R."""


def draw(table: LossTable, folder: Path) -> tuple[Drawing, ...]:
    """Draw the panels into `folder`."""
    drawings = []
    with figures.style():
        for backbone in table.backbones:
            drawings.append(_backbone_panel(backbone, table, folder))
            if table.beside[backbone] != backbone:
                drawings.append(_published_panel(backbone, table.beside[backbone], folder))
    return tuple(drawings)


def _backbone_panel(backbone: str, table: LossTable, folder: Path) -> Drawing:
    (axes,) = figures.panels()
    for position, rule in enumerate(table.rules):
        shift = DODGE * (position - (len(table.rules) - 1) / 2)
        cells = [table.cells[backbone, rule, loops] for loops in table.loops]
        _rule(axes, rule, cells, [loops + shift for loops in table.loops], table.rules)
        if table.beside[backbone] == backbone:
            _published_rule(axes, backbone, rule)
    if (floor := table.floor(backbone)) is not None:
        figures.floor_line(axes, floor)
    title = f"{backbone_name(backbone)}: validation loss against R"
    _finish(axes, title, table.loops)
    name = f"{NAME}-{slug(backbone)}"
    figures.save(axes, folder, name)
    alt = "Validation loss in nats per token against R, one marker a seed. "
    return Drawing(name=name, title=title, alt=alt + _in_words(backbone, table))


def _rule(
    axes: Axes, rule: str, cells: Sequence[Cell], x: Sequence[float], rules: tuple[str, ...]
) -> None:
    """Draw a rule's seeds, and a line through the means of those that train."""
    color, marker = palette.rule_style(rule, rules)
    points = [(at, s) for at, cell in zip(x, cells, strict=True) for s in cell.samples]
    good = [(at, s.value) for at, s in points if s.trained and s.value is not None]
    bad = [(at, s.value) for at, s in points if not s.trained and s.value is not None]
    means = [(at, cell.trained.mean) for at, cell in zip(x, cells, strict=True)]
    axes.plot(*_xy([(at, mean) for at, mean in means if mean is not None]), color=color)
    if good:
        figures.dots(axes, *_xy(good), color, marker, rule_name(rule))
    if bad:
        figures.crosses(axes, *_xy(bad), f"{rule_name(rule)}, did not train", color)


def _xy(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _published_rule(axes: Axes, backbone: str, rule: str) -> None:
    values = published().validation_loss.values[backbone].get(rule)
    if values:
        color, marker = palette.rule_style(rule, (rule,))
        label = f"{rule_name(rule)}, published"
        figures.published_line(axes, list(values), list(values.values()), color, marker, label)


def _published_panel(backbone: str, beside: str, folder: Path) -> Drawing:
    (axes,) = figures.panels()
    values = published().validation_loss.values[beside]
    for rule in values:
        _published_rule(axes, beside, rule)
    title = f"Published: {backbone_name(beside)}"
    _finish(axes, title, published().training.loops)
    name = f"{NAME}-{slug(backbone)}-published"
    figures.save(axes, folder, name)
    alt = f"The paper's validation loss against R. {_published_words(beside)}"
    return Drawing(name=name, title=title, alt=alt)


def _published_words(backbone: str) -> str:
    values = published().validation_loss.values[backbone]
    words = "; ".join(
        f"{rule_name(rule)}: " + ", ".join(f"{v:.4f} at R = {r}" for r, v in by_loops.items())
        for rule, by_loops in values.items()
    )
    return f"{words}."


def _finish(axes: Axes, title: str, loops: Sequence[int]) -> None:
    axes.set_title(title)
    axes.set_xlabel("number of loops R")
    axes.set_ylabel("validation loss (nats per token)")
    axes.set_xticks(list(loops))
    figures.legend(axes)


def _in_words(backbone: str, table: LossTable) -> str:
    parts = []
    for rule in table.rules:
        means = [(r, table.cells[backbone, rule, r].spread.mean) for r in table.loops]
        known = ", ".join(f"{mean:.3f} at R = {r}" for r, mean in means if mean is not None)
        parts.append(f"{rule_name(rule)}, mean of seeds: {known or 'no run'}")
    own = table.beside[backbone] == backbone
    beside = f" Published: {_published_words(backbone)}" if own else ""
    return "; ".join(parts) + "." + beside
