"""The scaling rules compared, in numbers, and a drawing of the block that they are for."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from deeploop.reporting import figures, palette
from deeploop.reporting.artifacts import write_exhibit
from deeploop.reporting.exhibits import Drawing, Entry, Exhibit, Group, Row, Table
from deeploop.reporting.names import rule_name
from deeploop.reporting.published import published
from deeploop.scaling import ScalingFamily, residual_scale

NAME = "scaling_rule"
BACKBONE = "small"
"""Whose number of blocks K the comparison is for."""
_FORMULAS = {
    "deepnorm": ("α = (2N)^(1/4), β = (8N)^(−1/4)", "1/(2√N)", "Θ(1)", "Θ(R)"),
    "deeploop": ("α = (2N)^(1/2), β = (8N)^(−1/2)", "1/(4N)", "Θ(1/N)", "Θ(1/K)"),
}


def build(folder: Path) -> Path:
    """Write the comparison and the drawing into `folder`, made if need be, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks = published().training.backbones[BACKBONE]["layers"]
    loops = published().training.loops
    exhibit = Exhibit(
        name=NAME,
        title="The scaling rule",
        source="Figure 1, Section 3.5",
        about="A looped Transformer stores K blocks and applies them R times: unrolled depth "
        "N = K·R, M = 2N visits of a residual sublayer, each x ← Norm(α·x + f(x)), with β the "
        f"gain of f's initial matrices. Below, for the K = {blocks} of GPT-2 small. The growth of "
        "the output that one update can cause is bounded by M(β/α)² where every visit has its "
        "own weights, and by M·R·(β/α)² where the visits of a shared block pull in one "
        "direction: there DeepNorm's grows with R, and DeepLoop's is 1/(8K), whatever R.",
        table=Table(
            corner="Rule",
            columns=tuple(f"R = {count}" for count in loops),
            groups=tuple(_group(rule, blocks, loops) for rule in _FORMULAS),
        ),
        drawings=(_draw(folder),),
    )
    write_exhibit(exhibit, folder)
    return folder


def _group(rule: str, blocks: int, loops: tuple[int, ...]) -> Group:
    family = ScalingFamily.of(rule)
    scales = {count: residual_scale(rule, blocks, count) for count in loops}
    formula, ratio, untied, aligned = _FORMULAS[rule]
    lines: tuple[tuple[str, list[float]], ...] = (
        ("α", [scale.alpha for scale in scales.values()]),
        ("β", [scale.beta for scale in scales.values()]),
        (f"β/α = {ratio}", [scale.ratio for scale in scales.values()]),
        (f"M(β/α)²: {untied}", [family.untied_bound(blocks, r) for r in loops]),
        (f"M·R·(β/α)²: {aligned}", [family.aligned_bound(blocks, r) for r in loops]),
    )
    rows = tuple(Row(label=label, entries=tuple(map(_entry, values))) for label, values in lines)
    return Group(label=f"{rule_name(rule)}: {formula}", rows=rows)


def _entry(value: float) -> Entry:
    return Entry(text=f"{value:.4g}", sort=value)


def _draw(folder: Path) -> Drawing:
    """Draw the stack with its loop, and one sublayer of it with its skip."""
    with figures.style():
        (axes,) = figures.panels(size=(9.4, 2.9))
        axes.set_axis_off()
        axes.set_xlim(0, 94)
        axes.set_ylim(0, 29)
        _stack(axes)
        _sublayer(axes)
        figures.save(axes, folder, NAME)
    return Drawing(
        name=NAME,
        title="A looped Transformer, and one residual sublayer of it",
        alt="Left: token embeddings enter a stack of blocks 1 to K; an arrow leads from the top "
        "block back to the first, R rounds, N = K times R; then the head. Right: a sublayer. Its "
        "input x goes through attention or MLP, whose matrices start with gain beta, and along a "
        "skip scaled by alpha; both are added and normalised.",
        wide=True,
    )


def _stack(axes: Axes) -> None:
    for x, text in ((1, "embedding"), (17, "block 1"), (29, "…"), (36, "block K"), (50, "head")):
        _box(axes, x, 9, 10 if text != "…" else 5, text, palette.INK)
    for start, end in ((11, 17), (27, 29), (34, 36), (46, 50)):
        _arrow(axes, (start, 12), (end, 12))
    _arrow(axes, (41, 15), (22, 15), bend=0.45)
    axes.text(31.5, 22.5, "R rounds, N = K·R", ha="center", color=palette.DEEPLOOP, weight="bold")
    axes.text(31.5, 4.5, "K blocks stored once, M = 2N sublayer visits", ha="center", fontsize=8.5)


def _sublayer(axes: Axes) -> None:
    axes.text(64, 12, "x", ha="center", va="center", weight="bold")
    _box(axes, 69, 9, 11, "f: gain β", palette.BASE)
    _box(axes, 85, 9, 8, "Norm", palette.INK)
    axes.text(82.4, 12, "+", ha="center", va="center", fontsize=14)
    for start, end in ((65, 69), (80, 81.6), (83.3, 85)):
        _arrow(axes, (start, 12), (end, 12))
    _arrow(axes, (64, 14), (82.4, 14.5), bend=-0.55)
    axes.text(73, 22.5, "skip × α", ha="center", color=palette.DEEPLOOP, weight="bold")
    axes.text(77, 4.5, "x ← Norm(α·x + f(x))", ha="center", fontsize=8.5)


def _box(axes: Axes, x: float, y: float, width: float, text: str, color: str) -> None:
    style = "round,pad=0,rounding_size=1"
    box = FancyBboxPatch(
        (x, y), width, 6, boxstyle=style, facecolor=palette.SURFACE, edgecolor=color, linewidth=1.4
    )
    axes.add_patch(box)
    axes.text(x + width / 2, y + 3, text, ha="center", va="center", fontsize=8.5, color=color)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: float = 0.0
) -> None:
    color = palette.DEEPLOOP if bend else palette.MUTED
    arrow = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        mutation_scale=10,
        connectionstyle=f"arc3,rad={bend}",
        color=color,
        linewidth=1.6 if bend else 1.1,
    )
    axes.add_patch(arrow)
