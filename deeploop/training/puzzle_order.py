"""The order in which HRM's training sees puzzles: a function of seed, step and row alone.

An epoch is every group (an original puzzle) once, in random order, each as one randomly chosen
member (an augmentation of it) with all its examples in random order. Epochs follow one another as
one stream; step s takes rows s * B to (s + 1) * B of it.

The published loader packs the same kind of epochs, but its draws depend on the process and its
state, so that every number of processes trains on other batches. It also drops what remains of
the puzzle that fills a batch; here a puzzle goes on in the next batch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from deeploop.draws import uniform
from deeploop.errors import UserError

Rendered = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Inputs and labels, uint8 [n, tokens], and puzzle identifiers, int32 [n]."""


class PuzzleRows(Protocol):
    """Rows of one split of an augmented data set (`deeploop.arc.rows.ArcRows`)."""

    count: int
    """Number of rows, N."""
    tokens: int
    """Tokens a row."""
    vocabulary: int
    """Number of token values."""
    identifiers: int
    """Number of puzzle identifiers of the whole data set, the blank one included."""
    puzzle_indices: np.ndarray
    """int32 [members + 1], first row of each member."""
    group_indices: np.ndarray
    """int32 [groups + 1], first member of each group."""

    def render(self, rows: np.ndarray) -> Rendered:
        """Return rows of the data set."""


class PuzzleOrder:
    """Which rows of a data set the training takes at each step."""

    def __init__(self, data: PuzzleRows, rows_per_step: int, seed: int) -> None:
        """Read the data set's groups.

        Raises:
            UserError: when it has no rows, or members of a group differ in their examples.
        """
        if not data.count:
            raise UserError("the data set has no training rows")
        self.rows_per_step, self.seed = rows_per_step, seed
        self.members = np.diff(data.group_indices)
        self.first_members = data.group_indices[:-1].astype(np.int64)
        self.first_rows = data.puzzle_indices[:-1].astype(np.int64)
        examples = np.diff(data.puzzle_indices)
        sizes = examples[self.first_members]
        if not np.array_equal(np.repeat(sizes, self.members), examples):
            raise UserError("the augmentations of a puzzle must all have the same examples")
        self.group_of = np.repeat(np.arange(len(sizes)), sizes)
        self.example_of = np.arange(len(self.group_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self.epoch = lru_cache(maxsize=4)(self._epoch)

    @property
    def rows_per_epoch(self) -> int:
        """Rows of one epoch."""
        return len(self.group_of)

    def rows(self, step: int, places: range) -> np.ndarray:
        """Return the data set's rows for `places` of the batch of `step`, int64 [n]."""
        start = step * self.rows_per_step
        stream = np.arange(start + places.start, start + places.stop)
        epochs, positions = np.divmod(stream, self.rows_per_epoch)
        chosen = [self.epoch(int(e))[positions[epochs == e]] for e in np.unique(epochs)]
        return np.concatenate(chosen)

    def _epoch(self, epoch: int) -> np.ndarray:
        groups = len(self.members)
        place = np.argsort(np.argsort(uniform(self.seed, "group order", epoch, groups)))
        drawn = (uniform(self.seed, "member", epoch, groups) * self.members).astype(np.int64)
        starts = self.first_rows[self.first_members + drawn]
        shuffled = uniform(self.seed, "example order", epoch, self.rows_per_epoch)
        order = np.lexsort((shuffled, place[self.group_of]))
        return (starts[self.group_of] + self.example_of)[order]


def spread_rows(data: PuzzleRows, wanted: int) -> np.ndarray:
    """Return at most `wanted` rows, the same always and evenly spread over the data set, int64."""
    return np.linspace(0, data.count - 1, min(wanted, data.count)).round().astype(np.int64)


def published_steps(data: PuzzleRows, epochs: int, rows_per_step: int) -> int:
    """Return the updates that the published code makes in so many epochs."""
    members = len(data.puzzle_indices) - 1
    groups = len(data.group_indices) - 1
    return int(epochs * groups * (data.count / members) / rows_per_step)
