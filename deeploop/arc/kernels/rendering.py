"""From the plan to tokens: the one function that makes rows, for training, digests and files."""

from __future__ import annotations

import numpy as np

from deeploop.arc.kernels.compiled import compiled
from deeploop.arc.kernels.hashing import COLOURS
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
    codes: np.ndarray,
    top: int,
    left: int,
    grid_size: int,
) -> None:
    """Write one grid's tokens, the padding 0, into `tokens` [grid_size^2].

    `codes` [10] are the tokens of the source's colours. An END token follows each row of the image
    and stands below each of its columns, where there is room.
    """
    first, down, right = source_walk(symmetry, height, width, width)
    rows, columns = (width, height) if swaps_sides(symmetry) else (height, width)
    tokens[:] = 0
    step = np.uint64(right)  # unsigned, so that no index is looked at for being negative
    for r in range(rows):
        source, place = np.uint64(first + r * down), np.uint64((top + r) * grid_size + left)
        end = place + np.uint64(columns)
        while place < end:
            tokens[place] = codes[cells[source]]
            place += np.uint64(1)
            source += step
        if left + columns < grid_size:
            tokens[end] = END
    if top + rows < grid_size:
        below = (top + rows) * grid_size + left
        tokens[below : below + columns] = END


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
    codes = np.empty(COLOURS, np.uint8)
    for k in range(rows.shape[0]):
        row = rows[k]
        group = np.searchsorted(groups[:, 0], row, side="right") - 1
        first_row, first_member, first_pair, pairs = groups[group]
        member = first_member + (row - first_row) // pairs
        pair = first_pair + (row - first_row) % pairs
        for colour in range(COLOURS):
            codes[colour] = colours[member, colour] + COLOUR_OFFSET
        height, width = np.int64(shapes[pair, side, 0]), np.int64(shapes[pair, side, 1])
        draw(
            tokens[k], cells[offsets[pair, side] :], height, width, symmetries[member],
            codes, np.int64(padding[row, 0]), np.int64(padding[row, 1]), grid_size,
        )  # fmt: skip
