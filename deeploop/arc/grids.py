"""Grids, their symmetries and colour maps, and the tokens they are written in.

These are the definitions, one grid at a time; `deeploop.arc.kernels` computes the same for millions
of rows, and the tests hold the two against each other. A grid is a uint8 array [height, width] of
colours 0 to 9.
"""

from __future__ import annotations

import numpy as np

MAX_GRID = 30
"""Largest height and width of a grid in ARC."""
PAD = 0
"""Token outside the grid."""
END = 1
"""Token after each row and below each column of the grid."""
COLOUR_OFFSET = 2
"""Colour c is token c + 2."""
VOCABULARY = 12
SYMMETRIES = 8
INVERSE_SYMMETRY = (0, 3, 2, 1, 4, 5, 6, 7)
"""Symmetry that undoes each: all are their own inverses but the quarter turns."""
IDENTITY_COLOURS = tuple(range(10))


def transform(grid: np.ndarray, symmetry: int) -> np.ndarray:
    """Return the grid under one of the eight symmetries of the square.

    0 is the identity, 1 to 3 are 90, 180 and 270 degrees counter-clockwise, 4 mirrors left and
    right, 5 mirrors up and down, 6 transposes, 7 mirrors along the other diagonal.
    """
    if symmetry < 4:
        return np.rot90(grid, symmetry)
    return (np.fliplr(grid), np.flipud(grid), grid.T, np.fliplr(np.rot90(grid)))[symmetry - 4]


def recolour(grid: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """Return the grid with colour c replaced by `colours[c]`; `colours` is uint8 [10]."""
    return colours[grid]


def augment(grid: np.ndarray, symmetry: int, colours: np.ndarray) -> np.ndarray:
    """Return the grid recoloured, then transformed."""
    return transform(recolour(grid, colours), symmetry)


def undo_augmentation(grid: np.ndarray, symmetry: int, colours: np.ndarray) -> np.ndarray:
    """Return the grid whose augmentation `grid` is."""
    return recolour(transform(grid, INVERSE_SYMMETRY[symmetry]), invert_colours(colours))


def invert_colours(colours: np.ndarray) -> np.ndarray:
    """Return the colour map that undoes `colours` [10]."""
    return np.argsort(colours).astype(np.uint8)


def encode(grid: np.ndarray, grid_size: int, top: int = 0, left: int = 0) -> np.ndarray:
    """Return the tokens uint8 [grid_size^2] of the grid, shifted down by `top`, right by `left`."""
    height, width = grid.shape
    square = np.zeros((grid_size + 1, grid_size + 1), np.uint8)
    square[top : top + height, left : left + width] = grid + COLOUR_OFFSET
    square[top + height, left : left + width] = END
    square[top : top + height, left + width] = END
    return square[:grid_size, :grid_size].reshape(-1)


def crop(tokens: np.ndarray, grid_size: int) -> np.ndarray:
    """Return the grid in `tokens` [grid_size^2]: the largest rectangle of colours at the corner.

    Of equally large ones the one with fewer rows. A token that is no colour ends its row, and all
    rows below it are no wider. Tokens that begin with no colour give a grid of shape (0, 0).
    """
    square = tokens.reshape(grid_size, grid_size)
    is_colour = (square >= COLOUR_OFFSET) & (square < VOCABULARY)
    widths = np.minimum.accumulate(np.logical_and.accumulate(is_colour, axis=1).sum(axis=1))
    areas = widths * np.arange(1, grid_size + 1)
    height = int(np.argmax(areas)) + 1
    if areas[height - 1] == 0:
        return np.zeros((0, 0), np.uint8)
    return (square[:height, : widths[height - 1]] - COLOUR_OFFSET).astype(np.uint8)
