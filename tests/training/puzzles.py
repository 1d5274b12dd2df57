"""A small data set in memory, of the shape that `deeploop.arc` renders: copy, or recolour."""

from __future__ import annotations

import numpy as np


class SmallPuzzles:
    """Groups of puzzles on a square grid: each member maps colours in its own way."""

    vocabulary = 12

    def __init__(self, groups: int = 6, members: int = 2, side: int = 3, seed: int = 0) -> None:
        draw = np.random.Generator(np.random.PCG64(seed))
        examples = 2 + np.arange(groups) % 3
        self.tokens = side * side
        self.group_indices = np.arange(groups + 1, dtype=np.int32) * members
        sizes = np.repeat(examples, members)
        self.puzzle_indices = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        self.count = int(self.puzzle_indices[-1])
        self.identifiers = groups * members + 1
        self.puzzle_of = np.repeat(np.arange(groups * members), sizes)
        maps = np.stack([draw.permutation(10) for _ in range(groups * members)])
        grids = draw.integers(0, 3, (self.count, self.tokens))
        self.inputs = (grids + 2).astype(np.uint8)
        self.labels = (np.take_along_axis(maps[self.puzzle_of], grids, 1) + 2).astype(np.uint8)
        self.labels[:, -1] = 0

    def render(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return inputs, labels and identifiers of `rows`."""
        puzzles = (self.puzzle_of[rows] + 1).astype(np.int32)
        return self.inputs[rows], self.labels[rows], puzzles
