"""The report's colours: one set for the figures' files, and a name for each on the page.

Inlined figures have each colour replaced by the CSS variable of its name, so that they follow the
page from light to dark. Base and DeepLoop differ in hue that the colour-blind can tell apart, and
in marker.
"""

from __future__ import annotations

INK = "#1c2430"
MUTED = "#5b6675"
GRID = "#dde2e9"
SURFACE = "#ffffff"
BASE = "#b45f06"
DEEPLOOP = "#2358d1"
FAILED = "#c62f3b"
PUBLISHED = "#5e6877"
OTHERS = ("#0f7b6c", "#7a3fb0", "#8a6f00", "#9d2f7a")

_SPECTRUM = (FAILED, BASE, OTHERS[2], OTHERS[0], DEEPLOOP, OTHERS[1], OTHERS[3])

VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    SURFACE: "surface",
    BASE: "base",
    DEEPLOOP: "deeploop",
    FAILED: "failed",
    PUBLISHED: "published",
    OTHERS[0]: "other-1",
    OTHERS[1]: "other-2",
    OTHERS[2]: "other-3",
    OTHERS[3]: "other-4",
}

_RULES = {"base": (BASE, "s"), "vanilla": (BASE, "s"), "deeploop": (DEEPLOOP, "o")}
_MARKERS = ("D", "^", "v", "P")


def rule_style(rule: str, rules: tuple[str, ...]) -> tuple[str, str]:
    """Return colour and marker of a scaling rule; those the paper does not have take their turn."""
    if rule in _RULES:
        return _RULES[rule]
    position = [name for name in rules if name not in _RULES].index(rule) % len(OTHERS)
    return OTHERS[position], _MARKERS[position]


def spectrum(count: int) -> tuple[str, ...]:
    """Return `count` colours in the order of the rainbow, for series that have an order."""
    last = len(_SPECTRUM) - 1
    return tuple(_SPECTRUM[index * last // max(1, count - 1)] for index in range(count))
