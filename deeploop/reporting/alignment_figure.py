"""kappa against training step, and the collapse indicator beside it: one line a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from deeploop.reporting import figures, palette
from deeploop.reporting.alignment_table import NAME, RULES, ModuleAlignment, Series
from deeploop.reporting.entries import number
from deeploop.reporting.exhibits import Drawing
from deeploop.reporting.names import rule_name, slug
from deeploop.reporting.rule_rows import ordered

Read = Callable[[ModuleAlignment], float | None]


def draw(found: Sequence[Series], folder: Path) -> tuple[Drawing, ...]:
    """Draw two panels a place into `folder`."""
    places = dict.fromkeys(series.where.label for series in found)
    with figures.style():
        return tuple(
            drawing
            for place in places
            for drawing in _place([s for s in found if s.where.label == place], place, folder)
        )


def _place(here: Sequence[Series], place: str, folder: Path) -> tuple[Drawing, Drawing]:
    kappa = _panel(
        here, f"{place}: visit alignment κ", "κ", lambda m: m.kappa.value, folder, place, "kappa"
    )
    common = _panel(
        here, f"{place}: common share", "share", lambda m: m.common[-1], folder, place, "common"
    )
    return kappa, common


def _panel(
    here: Sequence[Series],
    title: str,
    quantity: str,
    read: Read,
    folder: Path,
    place: str,
    kind: str,
) -> Drawing:
    (axes,) = figures.panels()
    rules = ordered([series.where.rule for series in here], RULES)
    for series in here:
        _lines(axes, series, rules, read)
    if kind == "kappa":
        axes.set_ylim(0, 1.05 * here[0].rounds)
        axes.axhline(here[0].rounds, color=palette.MUTED, linestyle=":", label="R, full alignment")
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.set_ylabel(quantity)
    axes.legend(fontsize=7.5)
    name = f"{NAME}-{kind}-{slug(place)}"
    figures.save(axes, folder, name)
    return Drawing(name=name, title=title, alt=_in_words(here, read))


def _lines(axes: Axes, series: Series, rules: tuple[str, ...], read: Read) -> None:
    color, marker = palette.rule_style(series.where.rule, rules)
    for index, (_, found) in enumerate(series.runs):
        label = "_" if index else rule_name(series.where.rule)  # a seed more is not named again
        values = [read(point.modules[series.where.module]) for point in found.points]
        known = [float("nan") if value is None else value for value in values]
        steps = [point.step for point in found.points]
        style = "-" if found.outcome == "trained" else ":"
        axes.plot(
            steps,
            known,
            style,
            color=color,
            marker=marker,
            markersize=4,
            linewidth=1.2,
            label=label,
        )


def _in_words(here: Sequence[Series], read: Read) -> str:
    parts = []
    for series in here:
        ends = [read(found.points[-1].modules[series.where.module]) for _, found in series.runs]
        shown = ", ".join(number(value, 2) or "none" for value in ends)
        parts.append(f"{rule_name(series.where.rule)}: {shown}")
    return "Against step, one line a seed, dotted where it does not train. At the end: " + (
        "; ".join(parts) + "."
    )
