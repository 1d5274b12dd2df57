"""Puzzle identifiers: a number per augmented puzzle, and HRM's names for them.

A name is the puzzle's, or `<puzzle>_t<symmetry>_<ten colours>` where augmented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deeploop.arc.grids import IDENTITY_COLOURS
from deeploop.arc.plan import ArcPlan
from deeploop.errors import UserError

BLANK = "<blank>"
"""Name of identifier 0, which pads batches."""


def identifier_names(plan: ArcPlan) -> list[str]:
    """Return the names of identifiers 0 to M, as HRM's `identifiers.json` lists them."""
    digits = (plan.colours + ord("0")).tobytes().decode("ascii")
    symmetries = plan.symmetries.tolist()
    names = [BLANK]
    for puzzle, start in zip(plan.puzzles, plan.member_starts.tolist(), strict=False):
        names.append(puzzle.name)
        names.extend(
            f"{puzzle.name}_t{symmetries[m]}_{digits[10 * m : 10 * m + 10]}"
            for m in range(start + 1, start + puzzle.members)
        )
    return names


@dataclass(frozen=True, eq=False)
class Identifiers:
    """What each of n identifiers stands for; identifier 0 is blank and belongs to puzzle -1."""

    puzzle_names: Sequence[str]
    puzzles: np.ndarray
    """int64 [n]: index into `puzzle_names`."""
    symmetries: np.ndarray
    """uint8 [n]"""
    colours: np.ndarray
    """uint8 [n, 10]"""
    augmented: np.ndarray
    """bool [n]"""

    @classmethod
    def of_plan(cls, plan: ArcPlan) -> Identifiers:
        """Return the identifiers of a planned data set."""
        members = np.diff(plan.member_starts)
        augmented = np.ones(len(plan.symmetries) + 1, bool)
        augmented[0] = False
        augmented[plan.member_starts[:-1] + 1] = False
        return cls(
            puzzle_names=[puzzle.name for puzzle in plan.puzzles],
            puzzles=np.concatenate(([-1], np.repeat(np.arange(len(members)), members))),
            symmetries=np.concatenate(([0], plan.symmetries)).astype(np.uint8),
            colours=np.concatenate(([IDENTITY_COLOURS], plan.colours)).astype(np.uint8),
            augmented=augmented,
        )

    @classmethod
    def read(cls, path: Path) -> Identifiers:
        """Return the identifiers that an `identifiers.json` of HRM's lists.

        Raises:
            UserError: when it is no list of names, or a name is not of HRM's form.
        """
        try:
            names = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: not a readable identifiers.json: {error}") from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UserError(f"{path}: must be a list of names")
        return parse_names(names, str(path))


AUGMENTATION = re.compile(r"_t([0-7])_([0-9]{10})")
AUGMENTATION_LENGTH = len("_t0_0123456789")


def parse_names(names: Sequence[str], where: str) -> Identifiers:
    """Return what names (of identifiers 0, 1, ...) stand for; `where` they are from.

    Raises:
        UserError: when a name is not of HRM's form.
    """
    numbers: dict[str, int] = {BLANK: -1}
    puzzles, tails = [], []
    for name in names:
        puzzle, separator, _ = name.partition("_")
        puzzles.append(numbers.setdefault(puzzle, len(numbers) - 1))
        tails.append(name[len(puzzle) :] if separator else "_t0_0123456789")
    if not all(map(AUGMENTATION.fullmatch, tails)):
        bad = next(
            n for n, tail in zip(names, tails, strict=True) if not AUGMENTATION.fullmatch(tail)
        )
        raise UserError(f"{where}: {bad!r} is not <puzzle> or <puzzle>_t<0 to 7>_<ten colours>")
    text = np.frombuffer("".join(tails).encode(), np.uint8).reshape(-1, AUGMENTATION_LENGTH)
    colours = text[:, 4:] - np.uint8(ord("0"))
    if (np.sort(colours, axis=1) != IDENTITY_COLOURS).any():
        bad = names[int((np.sort(colours, axis=1) != IDENTITY_COLOURS).any(axis=1).argmax())]
        raise UserError(f"{where}: {bad!r}: the colours are no permutation of 0 to 9")
    del numbers[BLANK]
    return Identifiers(
        puzzle_names=list(numbers),
        puzzles=np.array(puzzles),
        symmetries=text[:, 2] - np.uint8(ord("0")),
        colours=colours,
        augmented=np.array(["_" in name for name in names], bool),
    )
