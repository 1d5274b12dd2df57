"""Where a cell of a turned or mirrored grid comes from."""

from __future__ import annotations

from deeploop.arc.kernels.compiled import compiled


@compiled
def swaps_sides(symmetry: int) -> bool:
    """Return whether the symmetry exchanges height and width."""
    return symmetry == 1 or symmetry == 3 or symmetry >= 6


@compiled
def source_walk(symmetry: int, height: int, width: int) -> tuple[int, int, int]:
    """Return (first, down, right): cell (r, c) is the source's first + r * down + c * right.

    `height` and `width` are the source's; indices are into its row-major cells. Symmetries are
    numbered as in `deeploop.arc.grids.dihedral`.
    """
    if symmetry == 0:
        return 0, width, 1
    if symmetry == 1:
        return width - 1, -1, width
    if symmetry == 2:
        return height * width - 1, -width, -1
    if symmetry == 3:
        return (height - 1) * width, 1, -width
    if symmetry == 4:
        return width - 1, width, -1
    if symmetry == 5:
        return (height - 1) * width, -width, 1
    if symmetry == 6:
        return 0, 1, width
    return height * width - 1, -1, -width
