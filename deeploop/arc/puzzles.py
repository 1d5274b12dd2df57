"""What a puzzle is, what a set of puzzles is, and which puzzles are the same."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Order = Literal["sorted", "reversed"]
EVALUATION = "evaluation"
"""Name of the folder whose puzzles' tests are held out for the test split."""


@dataclass(frozen=True)
class Pair:
    """An input grid and the output grid it asks for, each uint8 [height, width]."""

    input: np.ndarray
    output: np.ndarray

    @property
    def side(self) -> int:
        """Return the largest height or width of the two grids."""
        return max(*self.input.shape, *self.output.shape)

    def digest(self) -> bytes:
        """Return the sha256 of both grids."""
        sha256 = hashlib.sha256()
        for grid in (self.input, self.output):
            sha256.update(bytes(grid.shape) + grid.tobytes())
        return sha256.digest()


@dataclass(frozen=True)
class Puzzle:
    """One task: demonstrations and tests."""

    name: str
    train: tuple[Pair, ...]
    test: tuple[Pair, ...]
    test_first: bool = False
    """Whether the file gives "test" before "train"; HRM's order of examples follows the file."""
    file: str = ""
    """File name without folder; what listings are sorted by."""

    @property
    def side(self) -> int:
        """Return the largest height or width of its grids."""
        return max(pair.side for pair in self.train + self.test)

    @property
    def in_file_order(self) -> tuple[Pair, ...]:
        """Return all pairs as the file lists them."""
        return self.test + self.train if self.test_first else self.train + self.test

    def digest(self) -> str:
        """Return a sha256 that is equal for puzzles with the same pairs, whatever their order."""
        digests = sorted(pair.digest() for pair in self.train + self.test)
        return hashlib.sha256(b"".join(digests)).hexdigest()


@dataclass(frozen=True)
class PuzzleSet:
    """The puzzles of one folder."""

    name: str
    puzzles: tuple[Puzzle, ...]

    @property
    def held_out(self) -> bool:
        """Return whether the tests of its puzzles are the test split."""
        return self.name == EVALUATION


def in_order(sets: Iterable[PuzzleSet], order: Order) -> list[PuzzleSet]:
    """Return the sets and their puzzles as a sorted or reverse-sorted folder listing gives them."""
    backwards = order == "reversed"
    return [
        replace(one, puzzles=tuple(sorted(one.puzzles, key=lambda p: p.file, reverse=backwards)))
        for one in sorted(sets, key=lambda one: one.name, reverse=backwards)
    ]


def that_fit(sets: Iterable[PuzzleSet], grid_size: int, limit: int | None) -> list[PuzzleSet]:
    """Return the sets without puzzles larger than `grid_size`, at most the first `limit` a set."""
    return [
        replace(one, puzzles=tuple(p for p in one.puzzles if p.side <= grid_size)[:limit])
        for one in sets
    ]


def duplicates(sets: Iterable[PuzzleSet]) -> list[list[str]]:
    """Return groups of puzzles with the same pairs, as sorted `set/name`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for one in sets:
        for puzzle in one.puzzles:
            groups[puzzle.digest()].append(f"{one.name}/{puzzle.name}")
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)
