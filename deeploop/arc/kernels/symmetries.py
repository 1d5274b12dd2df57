"""Where a cell of a turned or mirrored grid comes from."""

from __future__ import annotations

from deeploop.arc.kernels.compiled import compiled


@compiled
def swaps_sides(symmetry: int) -> bool:
    """Return whether the symmetry exchanges height and width."""
    return symmetry == 1 or symmetry == 3 or symmetry >= 6


@compiled
def source_walk(symmetry: int, height: int, width: int, stride: int) -> tuple[int, int, int]:
    """Return (first, down, right): cell (r, c) is the source's first + r * down + c * right.

    `height` and `width` are the source's, whose rows lie `stride` cells apart. Symmetries are
    numbered as in `deeploop.arc.grids.transform`.
    """
    last_row, last_column = (height - 1) * stride, width - 1
    if symmetry == 0:
        return 0, stride, 1
    if symmetry == 1:
        return last_column, -1, stride
    if symmetry == 2:
        return last_row + last_column, -stride, -1
    if symmetry == 3:
        return last_row, 1, -stride
    if symmetry == 4:
        return last_column, stride, -1
    if symmetry == 5:
        return last_row, -stride, 1
    if symmetry == 6:
        return 0, 1, stride
    return last_row + last_column, -1, -stride
