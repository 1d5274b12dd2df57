"""The plan of an augmented data set: everything that decides its rows, in some thirty megabytes.

A member is one augmentation of one puzzle: a symmetry and a colour map. Members of a puzzle lie
side by side, the un-augmented one first; member m has puzzle identifier m + 1, 0 being blank. A row
is one pair of one member, shifted by a padding; `deeploop.arc.rows` renders it when it is needed.

Two modes draw the random numbers. `hrm` is one MT19937 stream, word for word that of HRM's
`build_arc_dataset.py` (github.com/sapientinc/HRM at 42410da), so that the files made from the plan
are equal to HRM's; the order of files decides every draw. `philox` draws each number from its place
alone (seed, puzzle name, trial or member, pair): a puzzle's augmentations do not change when other
puzzles come or go, and more augmentations extend fewer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from safetensors.numpy import load_file, save

from deeploop.arc.grids import MAX_GRID
from deeploop.arc.kernels import augmentation, translation
from deeploop.arc.kernels.hashing import hash_tables
from deeploop.arc.kernels.streams import POSITION, WORDS, shuffled
from deeploop.arc.puzzles import Pair, Puzzle, PuzzleSet
from deeploop.errors import UserError
from deeploop.fileio import dump_json

Mode = Literal["hrm", "philox"]
Split = Literal["train", "test"]
SPLITS: tuple[Split, Split] = ("train", "test")
ARRAYS_FILE = "plan.safetensors"
SETTINGS_FILE = "plan.json"


@dataclass(frozen=True)
class PlanSettings:
    """What decides a plan beside the puzzles and their order."""

    augmentations: int
    """Wanted per puzzle; puzzles with symmetries or few colours have fewer."""
    mode: Mode = "hrm"
    seed: int = 42
    grid_size: int = MAX_GRID
    """Rows have grid_size^2 tokens."""


@dataclass(frozen=True)
class PuzzleEntry:
    """One puzzle's place in the plan."""

    name: str
    members: int
    """Augmentations kept, the un-augmented puzzle included."""
    train_pairs: int
    """Pairs in the training split."""
    test_pairs: int
    """Pairs held out for the test split; 0 for all but evaluation puzzles."""


@dataclass(frozen=True, eq=False)
class ArcPlan:
    """A planned data set. Sizes: P puzzles, M members, E pairs, C cells, R rows of training."""

    settings: PlanSettings
    puzzles: tuple[PuzzleEntry, ...]
    symmetries: np.ndarray
    """uint8 [M]: see `deeploop.arc.grids.transform`."""
    colours: np.ndarray
    """uint8 [M, 10]: colour c becomes colours[m, c], before the symmetry."""
    padding: np.ndarray
    """uint8 [R, 2]: empty rows above and columns left of the grid; the test split has none."""
    shapes: np.ndarray
    """uint8 [E, 2, 2]: height and width of the input and of the output."""
    cells: np.ndarray
    """uint8 [C]: input and output of each pair, row-major; a puzzle's training pairs first."""
    trials: int = 0
    """Augmentations drawn, kept or not."""

    @cached_property
    def offsets(self) -> np.ndarray:
        """int64 [E, 2]: first cell of each grid."""
        sizes = self.shapes.astype(np.int64).prod(axis=2).reshape(-1)
        return (np.cumsum(sizes) - sizes).reshape(-1, 2)

    @cached_property
    def member_starts(self) -> np.ndarray:
        """int64 [P + 1]: first member of each puzzle."""
        return _starts([puzzle.members for puzzle in self.puzzles])

    @cached_property
    def pair_starts(self) -> np.ndarray:
        """int64 [P + 1]: first pair of each puzzle."""
        return _starts([puzzle.train_pairs + puzzle.test_pairs for puzzle in self.puzzles])

    def groups(self, split: Split) -> np.ndarray:
        """Return int64 [G + 1, 4]: per puzzle of the split, what `kernels.rendering` asks for.

        First row, first member, first pair, pairs; the last line holds the end of each.
        """
        train = np.array([puzzle.train_pairs for puzzle in self.puzzles])
        test = np.array([puzzle.test_pairs for puzzle in self.puzzles])
        pairs = train if split == "train" else test
        first_pair = self.pair_starts[:-1] + (0 if split == "train" else train)
        here = np.flatnonzero(pairs)
        members = np.diff(self.member_starts)
        groups = np.zeros((len(here) + 1, 4), np.int64)
        groups[:, 0] = _starts((members * pairs)[here])
        groups[:-1, 1] = self.member_starts[:-1][here]
        groups[:-1, 2] = first_pair[here]
        groups[:-1, 3] = pairs[here]
        return groups

    def save(self, folder: Path) -> None:
        """Write the plan's two files into `folder`; equal plans give equal bytes."""
        arrays = ("symmetries", "colours", "padding", "shapes", "cells")
        content = save({name: getattr(self, name) for name in arrays})
        (folder / ARRAYS_FILE).write_bytes(content)
        about = {
            "settings": asdict(self.settings),
            "trials": self.trials,
            "puzzles": [list(asdict(puzzle).values()) for puzzle in self.puzzles],
        }
        (folder / SETTINGS_FILE).write_text(dump_json(about))

    @classmethod
    def load(cls, folder: Path) -> ArcPlan:
        """Read a plan.

        Raises:
            UserError: when `folder` holds none.
        """
        if not (folder / SETTINGS_FILE).is_file():
            raise UserError(f"{folder}: no ARC plan here ({SETTINGS_FILE} is missing)")
        about = json.loads((folder / SETTINGS_FILE).read_text())
        return cls(
            settings=PlanSettings(**about["settings"]),
            puzzles=tuple(PuzzleEntry(*entry) for entry in about["puzzles"]),
            trials=about["trials"],
            **load_file(folder / ARRAYS_FILE),
        )


def _starts(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(np.asarray(counts, np.int64)))).astype(np.int64)


def philox_key(seed: int, name: str) -> np.uint64:
    """Return the key of one puzzle's draws."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def mt19937_state(seed: int) -> np.ndarray:
    """Return the state of `numpy.random.seed(seed)` as the kernels keep it, uint32 [1249]."""
    state = np.zeros(POSITION + 1, np.uint32)
    _, state[:WORDS], state[POSITION], *_ = np.random.RandomState(seed).get_state()
    return state


class _Planner:
    """Plans puzzle by puzzle; what is random comes from `state` or, in philox mode, from keys."""

    def __init__(self, settings: PlanSettings) -> None:
        self.settings = settings
        self.state = mt19937_state(settings.seed)
        self.tables = hash_tables()
        self.trials = 0

    def in_plan_order(self, sets: Iterable[PuzzleSet]) -> Iterable[tuple[Puzzle, bool]]:
        """Yield puzzles and whether their tests are held out, in the order of identifiers."""
        if self.settings.mode == "philox":
            everything = [(puzzle, one.held_out) for one in sets for puzzle in one.puzzles]
            yield from sorted(everything, key=lambda item: item[0].name)
            return
        for one in sets:
            for index in shuffled(self.state, len(one.puzzles)):
                yield one.puzzles[index], one.held_out

    def pairs(self, puzzle: Puzzle, held_out: bool) -> tuple[Pair, ...]:
        """Return the puzzle's pairs, those of the training split first."""
        if held_out or self.settings.mode == "philox":
            return puzzle.train + puzzle.test
        return puzzle.in_file_order

    def key(self, name: str) -> np.uint64:
        """Return the key of the puzzle's draws; only philox mode has one."""
        if self.settings.mode == "philox":
            return philox_key(self.settings.seed, name)
        return np.uint64(0)

    def augment(
        self, name: str, shapes: np.ndarray, cells: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the symmetries [m] and colour maps [m, 10] that are kept of one puzzle."""
        wanted = self.settings.augmentations
        symmetries = np.zeros(wanted + 1, np.uint8)
        colours = np.zeros((wanted + 1, 10), np.uint8)
        kept, trials = augmentation.keep_distinct(
            wanted, self.settings.mode == "philox", self.state, self.key(name),
            cells, shapes, self.tables, symmetries, colours,
        )  # fmt: skip
        self.trials += trials
        return symmetries[:kept], colours[:kept]

    def pad(self, name: str, symmetries: np.ndarray, shapes: np.ndarray) -> np.ndarray:
        """Return the padding [members * pairs, 2] of one puzzle's training rows."""
        padding = np.zeros((len(symmetries) * len(shapes), 2), np.uint8)
        size = self.settings.grid_size
        if self.settings.mode == "philox":
            translation.draw_philox(self.key(name), symmetries, shapes, size, padding)
        else:
            translation.draw_mt19937(self.state, symmetries, shapes, size, padding)
        return padding


def make_plan(sets: Sequence[PuzzleSet], settings: PlanSettings) -> ArcPlan:
    """Plan the data set of `sets`, which are in the order HRM's builder would list them in.

    Raises:
        UserError: when there is no puzzle, or one does not fit `settings.grid_size`.
    """
    planner = _Planner(settings)
    entries: list[PuzzleEntry] = []
    shapes: list[np.ndarray] = []
    cells: list[np.ndarray] = []
    members: list[tuple[np.ndarray, np.ndarray]] = []
    for puzzle, held_out in planner.in_plan_order(sets):
        pairs = planner.pairs(puzzle, held_out)
        grids = [grid for pair in pairs for grid in (pair.input, pair.output)]
        shapes.append(np.array([grid.shape for grid in grids], np.uint8).reshape(-1, 2, 2))
        if shapes[-1].max() > settings.grid_size:
            raise UserError(f"puzzle {puzzle.name} does not fit grid_size {settings.grid_size}")
        cells.append(np.concatenate([grid.reshape(-1) for grid in grids]))
        members.append(planner.augment(puzzle.name, shapes[-1], cells[-1]))
        test_pairs = len(puzzle.test) if held_out else 0
        kept = len(members[-1][0])
        entries.append(PuzzleEntry(puzzle.name, kept, len(pairs) - test_pairs, test_pairs))
    if not entries:
        raise UserError(f"no puzzle fits grid_size {settings.grid_size}")
    padding = [
        planner.pad(entry.name, symmetries, shape[: entry.train_pairs])
        for entry, (symmetries, _), shape in zip(entries, members, shapes, strict=True)
    ]
    return ArcPlan(
        settings=settings,
        puzzles=tuple(entries),
        symmetries=np.concatenate([symmetries for symmetries, _ in members]),
        colours=np.concatenate([colours for _, colours in members]),
        padding=np.concatenate(padding),
        shapes=np.concatenate(shapes),
        cells=np.concatenate(cells),
        trials=planner.trials,
    )
