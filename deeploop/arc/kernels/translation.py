"""Where the examples of the training split are shifted to inside the square of tokens.

One example of each augmented puzzle, drawn at random, stays in the corner; the others are shifted
by a random padding above and to the left that keeps both grids inside.
"""

from __future__ import annotations

import numpy as np

from deeploop.arc.kernels.compiled import compiled
from deeploop.arc.kernels.streams import below, philox
from deeploop.arc.kernels.symmetries import swaps_sides

UNSHIFTED_STREAM = 1
SHIFT_STREAM = 2


@compiled
def free_space(shapes: np.ndarray, symmetry: int, grid_size: int) -> tuple[np.int64, np.int64]:
    """Return how far down and right a pair of grids, `shapes` [2, 2], may be shifted, plus one."""
    height = grid_size - np.int64(max(shapes[0, 0], shapes[1, 0])) + 1
    width = grid_size - np.int64(max(shapes[0, 1], shapes[1, 1])) + 1
    return (width, height) if swaps_sides(symmetry) else (height, width)


@compiled
def draw_mt19937(
    state: np.ndarray,
    symmetries: np.ndarray,
    shapes: np.ndarray,
    grid_size: int,
    padding: np.ndarray,
) -> None:
    """Fill `padding` [members * pairs, 2] of one puzzle, drawn as HRM draws it."""
    pairs, row = shapes.shape[0], 0
    for member in range(symmetries.shape[0]):
        unshifted = below(state, pairs)
        for pair in range(pairs):
            if pair != unshifted:
                down, right = free_space(shapes[pair], symmetries[member], grid_size)
                padding[row, 0] = below(state, down)
                padding[row, 1] = below(state, right)
            row += 1


@compiled
def draw_philox(
    key: np.uint64,
    symmetries: np.ndarray,
    shapes: np.ndarray,
    grid_size: int,
    padding: np.ndarray,
) -> None:
    """Fill `padding` [members * pairs, 2] of one puzzle; a draw depends on its place alone."""
    pairs, row, half = shapes.shape[0], 0, np.uint64(32)
    for member in range(symmetries.shape[0]):
        word, _, _, _ = philox(key, UNSHIFTED_STREAM, member, 0, 0)
        unshifted = np.int64((word * np.uint64(pairs)) >> half)
        for pair in range(pairs):
            if pair != unshifted:
                down, right = free_space(shapes[pair], symmetries[member], grid_size)
                one, two, _, _ = philox(key, SHIFT_STREAM, member, pair, 0)
                padding[row, 0] = (one * np.uint64(down)) >> half
                padding[row, 1] = (two * np.uint64(right)) >> half
            row += 1
