"""Puzzle identifiers: a number per augmented puzzle, and HRM's names for them.

A name is the puzzle's, or `<puzzle>_t<symmetry>_<ten colours>` where augmented.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deeploop.arc.grids import IDENTITY_COLOURS, SYMMETRIES
from deeploop.arc.plan import ArcPlan
from deeploop.errors import UserError

BLANK = "<blank>"
"""Name of identifier 0, which pads batches."""
UNAUGMENTED = "_t0_0123456789"
"""How the name would end if it were augmented by nothing; all augmented names are as long."""


def identifiers_json(plan: ArcPlan) -> bytes:
    """Return the text of HRM's `identifiers.json`: the names of identifiers 0 to M.

    Written as bytes, a puzzle at a time, because a million strings take longer than all the draws.
    """
    parts = [f'["{BLANK}"'.encode()]
    for puzzle, start in zip(plan.puzzles, plan.member_starts.tolist(), strict=False):
        augmented = slice(start + 1, start + puzzle.members)
        name = f', "{json.dumps(puzzle.name)[1:-1]}'.encode()
        parts.append(name + b'"')
        names = np.tile(
            np.frombuffer(name + UNAUGMENTED.encode() + b'"', np.uint8), (puzzle.members - 1, 1)
        )
        names[:, len(name) + 2] += plan.symmetries[augmented]
        names[:, len(name) + 4 : -1] = plan.colours[augmented] + ord("0")
        parts.append(names.tobytes())
    return b"".join([*parts, b"]"])


def identifier_names(plan: ArcPlan) -> list[str]:
    """Return the names of identifiers 0 to M."""
    names: list[str] = json.loads(identifiers_json(plan))
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


def parse_names(names: Sequence[str], where: str) -> Identifiers:
    """Return what names (of identifiers 0, 1, ...) stand for; `where` they are from.

    Raises:
        UserError: when a name is not of HRM's form.
    """
    heads = [name.partition("_")[0] for name in names]
    tails = [name[len(head) :] or UNAUGMENTED for name, head in zip(names, heads, strict=True)]
    for name, tail in zip(names, tails, strict=True):
        if len(tail) != len(UNAUGMENTED):
            raise _bad_name(name, where)
    letters = np.frombuffer("".join(tails).encode("ascii", "replace"), np.uint8)
    text = letters.reshape(-1, len(UNAUGMENTED))
    digits = text - np.uint8(ord("0"))
    good = (digits[:, 2] < SYMMETRIES) & _are_permutations(digits[:, 4:])
    for place, letter in ((0, "_"), (1, "t"), (3, "_")):
        good &= text[:, place] == ord(letter)
    if not good.all():
        raise _bad_name(names[int(good.argmin())], where)
    numbers = {head: number - 1 for number, head in enumerate(dict.fromkeys([BLANK, *heads]))}
    return Identifiers(
        puzzle_names=list(numbers)[1:],
        puzzles=np.array([numbers[head] for head in heads]),
        symmetries=digits[:, 2],
        colours=digits[:, 4:],
        augmented=np.array(["_" in name for name in names], bool),
    )


def _bad_name(name: str, where: str) -> UserError:
    form = "<puzzle> or <puzzle>_t<0 to 7>_<0 to 9 in some order>"
    return UserError(f"{where}: {name!r} is not {form}")


def _are_permutations(digits: np.ndarray) -> np.ndarray:
    """Return which rows of uint8 [n, 10] hold each of 0 to 9 once."""
    seen = np.zeros(len(digits), np.uint16)
    for column in digits.T:
        seen |= np.where(column < 10, np.uint16(1) << column, np.uint16(0)).astype(np.uint16)
    return seen == 2**10 - 1
