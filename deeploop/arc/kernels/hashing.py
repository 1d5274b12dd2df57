"""128-bit hashes of grids, linear in the colours: augmented grids need not be built.

A lane of a grid's hash is shape[h, w] + sum over cells of colour[value] * position[r, c], modulo
2^64, with random tables. The inner sum over the cells of one source colour does not depend on the
colour map: with those sums at hand, the hash of a recoloured grid is ten multiplications.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from deeploop.arc.kernels.compiled import compiled
from deeploop.arc.kernels.symmetries import source_walk, swaps_sides

LANES = 2
COLOURS = 10
SIDES = 31
"""One more than the largest height or width, which may also be 0 in a prediction."""


class HashTables(NamedTuple):
    """Random odd or full-range multipliers; axis 0 tells inputs (0) from outputs (1)."""

    position: np.ndarray
    """uint64 [2, 31, 31, lanes]"""
    shape: np.ndarray
    """uint64 [2, 31, 31, lanes]"""
    colour: np.ndarray
    """uint64 [10], odd."""


@functools.cache
def hash_tables() -> HashTables:
    """Draw the tables, always the same, from NumPy's Philox words (a stable stream, NEP 19)."""
    words = np.random.Philox(key=0xDEE9_1009)
    size = 2 * SIDES * SIDES * LANES
    position, shape = (
        words.random_raw(size).reshape(2, SIDES, SIDES, LANES).astype(np.uint64) for _ in range(2)
    )
    return HashTables(position, shape, words.random_raw(COLOURS).astype(np.uint64) | np.uint64(1))


@compiled
def mix(word: np.uint64) -> np.uint64:
    """Return a bijective scramble of a `uint64` (the finalizer of SplitMix64)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def add_colour_sums(
    cells: np.ndarray,
    height: int,
    width: int,
    symmetry: int,
    side: int,
    tables: HashTables,
    sums: np.ndarray,
    salt: np.ndarray,
) -> None:
    """Add one grid, turned by `symmetry`, to `sums` [colours, lanes] and its shape to `salt`."""
    first, down, right = source_walk(symmetry, height, width, width)
    rows, columns = (width, height) if swaps_sides(symmetry) else (height, width)
    for lane in range(LANES):
        salt[lane] += tables.shape[side, rows, columns, lane]
    step = np.uint64(right)
    for r in range(rows):
        source = np.uint64(first + r * down)
        for c in range(columns):
            colour = cells[source]
            sums[colour, 0] += tables.position[side, r, c, 0]
            sums[colour, 1] += tables.position[side, r, c, 1]
            source += step


@compiled
def recoloured_hash(
    colours: np.ndarray, colour_table: np.ndarray, sums: np.ndarray, salt: np.ndarray
) -> tuple[np.uint64, np.uint64]:
    """Return both lanes of the hash of what was summed, its colours mapped by `colours` [10]."""
    low, high = salt[0], salt[1]
    for colour in range(COLOURS):
        weight = colour_table[colours[colour]]
        low += weight * sums[colour, 0]
        high += weight * sums[colour, 1]
    low = mix(low)
    return low, mix(high ^ low)
