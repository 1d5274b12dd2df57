"""Figures: one style, one way to save (SVG, PDF, PNG; the same bytes every time).

Object-oriented matplotlib only: no pyplot, no global figure state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deeploop.reporting import palette

PANEL = (4.7, 3.3)
"""Inches of a single panel: readable on a phone, two beside each other on a desktop."""

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": palette.MUTED,
    "axes.facecolor": palette.SURFACE,
    "axes.grid": True,
    "axes.labelcolor": palette.INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": palette.INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "figure.facecolor": palette.SURFACE,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.7,
    "legend.edgecolor": palette.GRID,
    "legend.facecolor": palette.SURFACE,
    "legend.fontsize": 8.5,
    "legend.framealpha": 1.0,
    "legend.labelcolor": palette.INK,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,
    "savefig.facecolor": palette.SURFACE,
    "svg.fonttype": "none",
    "svg.hashsalt": "deeploop",
    "text.color": palette.INK,
    "xtick.color": palette.MUTED,
    "xtick.labelcolor": palette.INK,
    "ytick.color": palette.MUTED,
    "ytick.labelcolor": palette.INK,
}

_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def style() -> Any:
    """Return the context in which every figure is made and saved."""
    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **STYLE, "backend": "agg"}
    return matplotlib.rc_context(settings)


def panels(count: int = 1, columns: int = 1, size: tuple[float, float] = PANEL) -> list[Axes]:
    """Return `count` axes in a fresh figure of `columns` columns, each panel of `size` inches."""
    rows = -(-count // columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows))
    return [figure.add_subplot(rows, columns, index + 1) for index in range(count)]


def save(axes: Axes, folder: Path, name: str) -> None:
    """Write the figure that `axes` is part of as `<name>.svg`, `.pdf` and `.png`."""
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once, not once a format
    for kind, metadata in _METADATA.items():
        figure.savefig(folder / f"{name}.{kind}", metadata=metadata, dpi=200)


def dots(axes: Axes, x: list[float], y: list[float], color: str, marker: str, label: str) -> None:
    """Draw one marker a run, edged so that overlapping ones can be counted."""
    axes.plot(
        x,
        y,
        linestyle="none",
        marker=marker,
        markersize=7,
        color=color,
        markeredgecolor=palette.SURFACE,
        markeredgewidth=0.8,
        label=label,
    )


def crosses(
    axes: Axes, x: list[float], y: list[float], label: str, color: str = palette.FAILED
) -> None:
    """Draw one cross for each run that did not train."""
    axes.plot(
        x,
        y,
        linestyle="none",
        marker="x",
        markersize=7,
        markeredgewidth=2.0,
        color=color,
        label=label,
    )


def legend(axes: Axes, **options: Any) -> None:
    """Add a legend where there is something to name."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**options)


def published_line(
    axes: Axes, x: list[float], y: list[float], color: str, marker: str, label: str
) -> None:
    """Draw published values: hollow markers on a dashed line."""
    axes.plot(
        x,
        y,
        linestyle=(0, (4, 2)),
        linewidth=1.2,
        marker=marker,
        markersize=6,
        markerfacecolor=palette.SURFACE,
        color=color,
        label=label,
    )


def floor_line(axes: Axes, nats: float) -> None:
    """Draw the loss of predicting by token frequency alone."""
    axes.axhline(
        nats,
        color=palette.MUTED,
        linestyle=(0, (5, 3)),
        linewidth=1.1,
        label=f"unigram floor ({nats:.2f})",
    )
