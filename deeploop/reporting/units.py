"""Large counts as people read them."""

from __future__ import annotations

from collections.abc import Sequence

_SUFFIXES = ((1_000_000_000, " B"), (1_000_000, " M"), (1_000, " k"))


def count_text(count: int) -> str:
    """Write a count with three significant digits: `124 M`, `115 k`, `450`."""
    for size, suffix in _SUFFIXES:
        if count >= size:
            scaled = count / size
            return f"{scaled:.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f}{suffix}"
    return str(count)


def count_range(counts: Sequence[int]) -> str:
    """Write the smallest and the largest count, or the one they share."""
    low, high = count_text(min(counts)), count_text(max(counts))
    return low if low == high else f"{low} to {high}"
