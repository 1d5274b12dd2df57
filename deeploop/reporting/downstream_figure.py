"""Figures 3, 4 and 5: 1-shot accuracy against R, on average and task by task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from deeploop.reporting import figures, palette
from deeploop.reporting.downstream_table import DownstreamTable
from deeploop.reporting.exhibits import Drawing
from deeploop.reporting.names import backbone_name, rule_name, slug, task_name
from deeploop.reporting.published import AVERAGE, published

TASK_PANEL = (2.6, 2.25)
"""Inches of one task's panel; four stand in a row."""


def draw(name: str, table: DownstreamTable, folder: Path) -> tuple[Drawing, ...]:
    """Draw, for each backbone, the averages, and the tasks at the most shots evaluated."""
    drawings = []
    with figures.style():
        for backbone in table.beside:
            drawings += [_average(name, backbone, s, table, folder) for s in table.shots]
            drawings.append(_tasks(name, backbone, table.shots[-1], table, folder))
    return tuple(drawings)


def _average(name: str, backbone: str, shots: int, table: DownstreamTable, folder: Path) -> Drawing:
    (axes,) = figures.panels()
    _panel(axes, backbone, shots, AVERAGE, table)
    title = f"{backbone_name(backbone)}: {shots}-shot average"
    axes.set_title(title)
    axes.set_xlabel("number of loops R")
    axes.set_ylabel("accuracy (percent)")
    figures.legend(axes)
    file = f"{name}-{slug(backbone)}-average-{shots}-shot"
    figures.save(axes, folder, file)
    alt = f"{shots}-shot average accuracy against R. {_in_words(backbone, shots, table)}."
    return Drawing(name=file, title=title, alt=alt)


def _tasks(name: str, backbone: str, shots: int, table: DownstreamTable, folder: Path) -> Drawing:
    tasks = [column for column in table.columns if column != AVERAGE]
    panels = figures.panels(len(tasks), columns=4, size=TASK_PANEL)
    for axes, task in zip(panels, tasks, strict=True):
        _panel(axes, backbone, shots, task, table)
        axes.set_title(task_name(task))
    handles, labels = panels[0].get_legend_handles_labels()
    panels[0].get_figure().legend(  # type: ignore[union-attr]
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False
    )
    title = f"{backbone_name(backbone)}: {shots}-shot accuracy by task, against R"
    file = f"{name}-{slug(backbone)}-tasks-{shots}-shot"
    figures.save(panels[0], folder, file)
    names = ", ".join(task_name(task) for task in tasks)
    alt = (
        f"{shots}-shot accuracy against R in a panel for each of {names}; the table has the values."
    )
    return Drawing(name=file, title=title, alt=alt, wide=True)


def _panel(axes: Axes, backbone: str, shots: int, column: str, table: DownstreamTable) -> None:
    """Draw one task's or the average's runs, published curves and the level of guessing."""
    models = [model for model in table.models if model[0] == backbone]
    rules = tuple(dict.fromkeys(rule for _, rule, _ in models))
    loops = sorted({r for _, _, r in models})
    for rule in rules:
        color, marker = palette.rule_style(rule, rules)
        cells = [(m[2], table.cells[m, shots, column]) for m in models if m[1] == rule]
        means = [(r, mean) for r, cell in cells if (mean := cell.spread.mean) is not None]
        axes.plot([r for r, _ in means], [m for _, m in means], color=color)
        points = [(r, s.value) for r, c in cells for s in c.samples if s.value is not None]
        x, y = [float(r) for r, _ in points], [v for _, v in points]
        if x:
            figures.dots(axes, x, y, color, marker, rule_name(rule))
        _published(axes, table.beside[backbone], shots, rule, column, loops)
    if (chance := table.chance(column)) is not None:
        axes.axhline(
            chance, color=palette.MUTED, linestyle=(0, (1, 2)), linewidth=1.1, label="guessing"
        )
    axes.set_xticks(loops)


def _published(
    axes: Axes, beside: str, shots: int, rule: str, column: str, loops: Sequence[int]
) -> None:
    paper = published()
    known = [
        (r, value)
        for r in paper.training.loops
        if (value := paper.accuracy(beside, shots, rule, r, column)) is not None and r <= max(loops)
    ]
    if known:
        color, marker = palette.rule_style(rule, (rule,))
        x, y = [float(r) for r, _ in known], [v for _, v in known]
        figures.published_line(axes, x, y, color, marker, f"{rule_name(rule)}, published")


def _in_words(backbone: str, shots: int, table: DownstreamTable) -> str:
    words = []
    for model in table.models:
        if model[0] == backbone:
            cell = table.cells[model, shots, AVERAGE]
            own = "no run" if cell.spread.mean is None else f"{cell.spread.mean:.2f}"
            beside = "" if cell.published is None else f" (published {cell.published:.2f})"
            words.append(f"{rule_name(model[1])} R = {model[2]}: {own}{beside}")
    return "; ".join(words)
