"""From predicted tokens to hashes of the grids they stand for, in the un-augmented puzzle."""

from __future__ import annotations

import numpy as np

from deeploop.arc.kernels.compiled import compiled
from deeploop.arc.kernels.hashing import COLOURS, HashTables, mix
from deeploop.arc.kernels.symmetries import source_walk, swaps_sides

COLOUR_OFFSET = 2


@compiled
def corner_shape(tokens: np.ndarray, grid_size: int) -> tuple[int, int]:
    """Return height and width of the grid that `deeploop.arc.grids.crop` finds."""
    height, width, limit, area = 0, 0, grid_size, 0
    for row in range(grid_size):
        column = 0
        while column < limit and (
            COLOUR_OFFSET <= tokens[row * grid_size + column] < COLOUR_OFFSET + COLOURS
        ):
            column += 1
        limit = column
        if limit == 0:
            break
        if (row + 1) * limit > area:
            height, width, area = row + 1, limit, (row + 1) * limit
    return height, width


@compiled
def grid_hash(
    tokens: np.ndarray,
    height: int,
    width: int,
    symmetry: int,
    colours: np.ndarray,
    side: int,
    tables: HashTables,
    grid_size: int,
) -> tuple[np.uint64, np.uint64]:
    """Return the hash of the corner's grid, turned by `symmetry`, colours mapped by `colours`."""
    first, down, right = source_walk(symmetry, height, width, grid_size)
    rows, columns = (width, height) if swaps_sides(symmetry) else (height, width)
    low, high = tables.shape[side, rows, columns, 0], tables.shape[side, rows, columns, 1]
    for r in range(rows):
        for c in range(columns):
            token = tokens[first + r * down + c * right]
            weight = tables.colour[colours[token - COLOUR_OFFSET]]
            low += weight * tables.position[side, r, c, 0]
            high += weight * tables.position[side, r, c, 1]
    low = mix(low)
    return low, mix(high ^ low)


@compiled
def original_hashes(
    tokens: np.ndarray,
    symmetries: np.ndarray,
    colours: np.ndarray,
    side: int,
    tables: HashTables,
    grid_size: int,
    hashes: np.ndarray,
) -> None:
    """Fill `hashes` uint64 [n, 2] of `tokens` [n, grid_size^2] with their augmentation undone.

    `symmetries` [n] and `colours` [n, 10] are the augmentations; `side` is 0 for inputs, 1 for
    labels and predictions.
    """
    inverse = np.zeros(COLOURS, np.uint8)
    for k in range(tokens.shape[0]):
        symmetry = symmetries[k]
        if symmetry == 1 or symmetry == 3:
            symmetry = 4 - symmetry
        for colour in range(COLOURS):
            inverse[colours[k, colour]] = colour
        height, width = corner_shape(tokens[k], grid_size)
        hashes[k] = grid_hash(tokens[k], height, width, symmetry, inverse, side, tables, grid_size)
