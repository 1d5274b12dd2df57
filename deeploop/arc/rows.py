"""Rows of a planned data set, rendered when they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from deeploop.arc.grids import VOCABULARY
from deeploop.arc.kernels import rendering
from deeploop.arc.plan import ArcPlan, Split

SIDES = {"inputs": 0, "labels": 1}


class ArcRows:
    """One split of a planned data set.

    Rows of a puzzle's member are side by side, and members of a puzzle; see HRM's
    `puzzle_dataset.py` for how training samples by group (puzzle) and member.

    Attributes:
        count: number of rows, N.
        tokens: tokens a row, grid_size^2.
        vocabulary: number of token values.
        identifiers: number of puzzle identifiers of the whole data set, the blank one included.
        puzzle_identifiers: int32 [m], of each member.
        puzzle_indices: int32 [m + 1], first row of each member.
        group_indices: int32 [G + 1], first member of each puzzle.
    """

    def __init__(self, plan: ArcPlan | Path, split: Split) -> None:
        self.plan = ArcPlan.load(plan) if isinstance(plan, Path) else plan
        self.split = split
        self.tokens = self.plan.settings.grid_size**2
        self.vocabulary = VOCABULARY
        self.identifiers = len(self.plan.symmetries) + 1
        self._groups = self.plan.groups(split)
        self.count = int(self._groups[-1, 0])
        shifted = split == "train"
        self._padding = self.plan.padding if shifted else np.zeros((self.count, 2), np.uint8)
        first_row, first_member, _, pairs = self._groups[:-1].T
        members = np.diff(self._groups[:, 0]) // pairs
        self.group_indices = _int32(np.concatenate(([0], np.cumsum(members))))
        ranks = np.arange(members.sum()) - np.repeat(self.group_indices[:-1], members)
        self.puzzle_identifiers = _int32(np.repeat(first_member, members) + ranks + 1)
        starts = np.repeat(first_row, members) + ranks * np.repeat(pairs, members)
        self.puzzle_indices = _int32(np.append(starts, self.count))

    def side(self, name: str, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return uint8 [len(rows), tokens] of the `inputs` or `labels` of `rows`.

        Raises:
            IndexError: when a row is not in the split.
        """
        rows = np.ascontiguousarray(rows, np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() < self.count:
            raise IndexError(f"rows of the {self.split} split are 0 to {self.count - 1}")
        tokens = np.empty((len(rows), self.tokens), np.uint8) if out is None else out[: len(rows)]
        plan = self.plan
        rendering.render(
            rows, SIDES[name], self._groups, self._padding, plan.symmetries, plan.colours,
            plan.cells, plan.offsets, plan.shapes, plan.settings.grid_size, tokens,
        )  # fmt: skip
        return tokens

    def render(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (inputs, labels, puzzle_identifiers) of `rows`.

        Tokens are uint8 [len(rows), tokens], identifiers int32 [len(rows)].

        Raises:
            IndexError: when a row is not in the split.
        """
        inputs, labels = (self.side(name, rows) for name in SIDES)
        members = np.searchsorted(self.puzzle_indices, rows, side="right") - 1
        return inputs, labels, self.puzzle_identifiers[members]


def _int32(values: Any) -> np.ndarray:
    return np.asarray(values).astype(np.int32)
