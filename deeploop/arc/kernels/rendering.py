"""From the plan to tokens: the one function that makes rows, for training, digests and files."""

from __future__ import annotations

import numpy as np

from deeploop.arc.kernels.compiled import compiled
from deeploop.arc.kernels.symmetries import source_walk, swaps_sides

END = 1
COLOUR_OFFSET = 2


@compiled
def draw(
    tokens: np.ndarray,
    cells: np.ndarray,
    height: int,
    width: int,
    symmetry: int,
    colours: np.ndarray,
    top: int,
    left: int,
    grid_size: int,
) -> None:
    """Write one grid's tokens, the padding 0, into `tokens` [grid_size^2].

    An END token follows each of its rows and stands below each of its columns, where there is room.
    """
    first, down, right = source_walk(symmetry, height, width, width)
    rows, columns = (width, height) if swaps_sides(symmetry) else (height, width)
    tokens[:] = 0
    for r in range(rows):
        source, place = first + r * down, (top + r) * grid_size + left
        for c in range(columns):
            tokens[place + c] = colours[cells[source + c * right]] + COLOUR_OFFSET
        if left + columns < grid_size:
            tokens[place + columns] = END
    if top + rows < grid_size:
        place = (top + rows) * grid_size + left
        tokens[place : place + columns] = END


@compiled
def render(
    rows: np.ndarray,
    side: int,
    groups: np.ndarray,
    padding: np.ndarray,
    symmetries: np.ndarray,
    colours: np.ndarray,
    cells: np.ndarray,
    offsets: np.ndarray,
    shapes: np.ndarray,
    grid_size: int,
    tokens: np.ndarray,
) -> None:
    """Write `tokens` [len(rows), grid_size^2] of the inputs (side 0) or labels (1) of `rows`.

    `groups` int64 [puzzles + 1, 4] gives, per puzzle of the split, its first row, first member,
    first pair and number of pairs; the last line holds the number of rows.
    """
    for k in range(rows.shape[0]):
        row = rows[k]
        group = np.searchsorted(groups[:, 0], row, side="right") - 1
        first_row, first_member, first_pair, pairs = groups[group]
        member = first_member + (row - first_row) // pairs
        pair = first_pair + (row - first_row) % pairs
        height, width = np.int64(shapes[pair, side, 0]), np.int64(shapes[pair, side, 1])
        draw(
            tokens[k], cells[offsets[pair, side] :], height, width, symmetries[member],
            colours[member], np.int64(padding[row, 0]), np.int64(padding[row, 1]), grid_size,
        )  # fmt: skip
