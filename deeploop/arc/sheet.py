"""What is shown of a puzzle: its pairs, some augmentations, and the first votes on its tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from deeploop.arc.grids import augment
from deeploop.arc.plan import ArcPlan, PlanSettings, make_plan
from deeploop.arc.puzzles import PuzzleSet


@dataclass(frozen=True)
class Tile:
    """One grid and what is written above it."""

    caption: str
    grid: np.ndarray


@dataclass(frozen=True)
class Line:
    """Grids side by side."""

    title: str
    tiles: tuple[Tile, ...]


def plan_of_puzzle(sets: Iterable[PuzzleSet], name: str, augmentations: int) -> ArcPlan | None:
    """Return a plan of one puzzle alone, its augmentations keyed by its name; None without it."""
    for one in sets:
        for puzzle in one.puzzles:
            if puzzle.name == name:
                alone = PuzzleSet(one.name, (puzzle,))
                return make_plan([alone], PlanSettings(augmentations, mode="philox"))
    return None


def puzzle_lines(plan: ArcPlan, name: str, augmentations: int) -> Iterator[Line]:
    """Yield a line of the pairs of a puzzle of the plan, and of its first augmentations."""
    index = [puzzle.name for puzzle in plan.puzzles].index(name)
    for number in range(min(augmentations + 1, plan.puzzles[index].members)):
        member = int(plan.member_starts[index]) + number
        symmetry, colours = int(plan.symmetries[member]), plan.colours[member]
        digits = "".join(map(str, colours))
        title = f"augmentation {number}: symmetry {symmetry}, colours {digits}" if number else name
        yield Line(title, tuple(_pair_tiles(plan, index, symmetry, colours)))


def _pair_tiles(plan: ArcPlan, index: int, symmetry: int, colours: np.ndarray) -> Iterator[Tile]:
    train = plan.puzzles[index].train_pairs
    first, end = plan.pair_starts[index : index + 2]
    for pair in range(first, end):
        number = pair - first
        what = f"pair {number}" if number < train else f"test {number - train}"
        for side, role in enumerate(("input", "output")):
            height, width = plan.shapes[pair, side]
            start = int(plan.offsets[pair, side])
            cells = plan.cells[start : start + int(height) * int(width)]
            grid = augment(cells.reshape(height, width), symmetry, colours)
            yield Tile(f"{what} {role}", grid)


def vote_lines(votes: Path, name: str) -> Iterator[Line]:
    """Yield the first candidates of each test of a puzzle, from a run's `top_votes.parquet`."""
    table = pl.read_parquet(votes).filter(pl.col("puzzle") == name)
    for (test,), candidates in table.group_by("test", maintain_order=True):
        tiles = [
            Tile(
                f"{row['rank']}: {row['votes']} votes, {row['probability']:.2f}"
                + (" right" if row["right"] else ""),
                np.frombuffer(row["grid"], np.uint8).reshape(row["height"], row["width"]),
            )
            for row in candidates.iter_rows(named=True)
        ]
        yield Line(f"votes on test {test} (count, mean halting probability)", tuple(tiles))
