"""Which augmentations of a puzzle are kept: the first distinct ones of a random stream of trials.

A trial is a symmetry and a permutation of colours 1 to 9. It is kept when no kept one gives the
same multiset of (input, output) pairs, over demonstrations and tests together. The un-augmented
puzzle comes first. There are at most five trials for each augmentation asked for.
"""

from __future__ import annotations

import numpy as np

from deeploop.arc.kernels.compiled import compiled
from deeploop.arc.kernels.hashing import (
    COLOURS,
    LANES,
    HashTables,
    add_colour_sums,
    mix,
    recoloured_hash,
)
from deeploop.arc.kernels.streams import below, philox

SYMMETRIES = 8
TRIALS_PER_AUGMENTATION = 5
TRIAL_STREAM = 0
"""First counter word of the Philox draws of trials (see `translation` for the others)."""
ARRANGEMENTS = 362_880
"""9!, the permutations of colours 1 to 9."""


@compiled
def draw_mt19937(state: np.ndarray, colours: np.ndarray) -> np.int64:
    """Draw a trial as HRM does (`randint`, then `permutation`); fill `colours`, return symmetry."""
    symmetry = below(state, SYMMETRIES)
    for colour in range(COLOURS):
        colours[colour] = colour
    for last in range(8, 0, -1):
        other = below(state, last + 1)
        colours[1 + last], colours[1 + other] = colours[1 + other], colours[1 + last]
    return symmetry


@compiled
def draw_philox(key: np.uint64, trial: int, colours: np.ndarray) -> np.int64:
    """Draw trial number `trial` of a puzzle: one 64-bit word scaled to 8 * 9! cases."""
    high, low, _, _ = philox(key, TRIAL_STREAM, trial, 0, 0)
    cases = np.uint64(SYMMETRIES * ARRANGEMENTS)
    case = np.int64((high * cases + ((low * cases) >> np.uint64(32))) >> np.uint64(32))
    symmetry, case = case % SYMMETRIES, case // SYMMETRIES
    for colour in range(COLOURS):
        colours[colour] = colour
    for last in range(8, 0, -1):
        case, other = case // (last + 1), case % (last + 1)
        colours[1 + last], colours[1 + other] = colours[1 + other], colours[1 + last]
    return symmetry


@compiled
def fill_sums(
    cells: np.ndarray,
    shapes: np.ndarray,
    tables: HashTables,
    sums: np.ndarray,
    salts: np.ndarray,
) -> None:
    """Fill `sums` [8, pairs, colours, lanes] and `salts` [8, pairs, lanes] of a puzzle's pairs.

    `shapes` [pairs, 2, 2] are heights and widths of inputs and outputs, whose cells follow each
    other in `cells`.
    """
    start = np.int64(0)
    for pair in range(shapes.shape[0]):
        for side in range(2):
            height, width = np.int64(shapes[pair, side, 0]), np.int64(shapes[pair, side, 1])
            grid = cells[start : start + height * width]
            start += height * width
            for symmetry in range(SYMMETRIES):
                add_colour_sums(
                    grid, height, width, symmetry, side, tables,
                    sums[symmetry, pair], salts[symmetry, pair],
                )  # fmt: skip


@compiled
def pairs_hash(
    colours: np.ndarray, colour_table: np.ndarray, sums: np.ndarray, salts: np.ndarray
) -> tuple[np.uint64, np.uint64]:
    """Return the hash of the multiset of recoloured pairs; its low lane is never 0."""
    low, high = np.uint64(0), np.uint64(0)
    for pair in range(sums.shape[0]):
        one, two = recoloured_hash(colours, colour_table, sums[pair], salts[pair])
        low += mix(one + two)
        high += two
    return low | np.uint64(1), high


@compiled
def is_new(table: np.ndarray, low: np.uint64, high: np.uint64) -> bool:
    """Add a hash to the open-addressing `table` [2^n, lanes]; return whether it was not there."""
    mask = np.uint64(table.shape[0] - 1)
    slot = (low >> np.uint64(1)) & mask
    while table[slot, 0] != np.uint64(0):
        if table[slot, 0] == low and table[slot, 1] == high:
            return False
        slot = (slot + np.uint64(1)) & mask
    table[slot, 0], table[slot, 1] = low, high
    return True


@compiled
def keep_distinct(
    wanted: int,
    from_philox: bool,
    state: np.ndarray,
    key: np.uint64,
    cells: np.ndarray,
    shapes: np.ndarray,
    tables: HashTables,
    symmetries: np.ndarray,
    colours: np.ndarray,
) -> tuple[int, int]:
    """Fill `symmetries` [wanted+1] and `colours` [wanted+1, 10]; return (kept, trials).

    `kept` counts the un-augmented puzzle. Trials come from `state` (MT19937), or from `key` where
    `from_philox`.
    """
    symmetries[0] = 0
    for colour in range(COLOURS):
        colours[0, colour] = colour
    if wanted == 0:
        return 1, 0
    pairs = shapes.shape[0]
    sums = np.zeros((SYMMETRIES, pairs, COLOURS, LANES), np.uint64)
    salts = np.zeros((SYMMETRIES, pairs, LANES), np.uint64)
    fill_sums(cells, shapes, tables, sums, salts)
    size = 4
    while size < 2 * (wanted + 1):
        size *= 2
    seen = np.zeros((size, LANES), np.uint64)
    low, high = pairs_hash(colours[0], tables.colour, sums[0], salts[0])
    is_new(seen, low, high)
    kept, trials = 1, 0
    while kept <= wanted and trials < TRIALS_PER_AUGMENTATION * wanted:
        if from_philox:
            symmetry = draw_philox(key, trials, colours[kept])
        else:
            symmetry = draw_mt19937(state, colours[kept])
        trials += 1
        low, high = pairs_hash(colours[kept], tables.colour, sums[symmetry], salts[symmetry])
        if is_new(seen, low, high):
            symmetries[kept] = symmetry
            kept += 1
    return kept, trials
