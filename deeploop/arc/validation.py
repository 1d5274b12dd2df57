"""From JSON to puzzles, strictly: every fault of every file is found before anything is written.

A fault says the file, the place in it and the reason. `Checker` collects them; its `finish` raises
one `UserError` that lists all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from deeploop.arc.grids import MAX_GRID
from deeploop.arc.puzzles import Pair, Puzzle, PuzzleSet
from deeploop.errors import UserError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
"""Names become identifiers, where '_' separates the augmentation, and file names."""
FAULTS_SHOWN = 3
"""Faults listed per file."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong."""

    file: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.place}: {self.reason}" if self.place else (
            f"{self.file}: {self.reason}"
        )  # fmt: skip


class Rejected(ValueError):
    """A value that is not what it should be: (place, reason)."""


def _no_repeated_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(items)
    if len(keys) < len(items):
        names = [key for key, _ in items]
        repeated = next(key for key in names if names.count(key) > 1)
        raise Rejected("", f"key {repeated!r} is given twice")
    return keys


def parse_json(text: bytes) -> Any:
    """Return the JSON value in `text`.

    Raises:
        Rejected: when it is not JSON, repeats a key or is nested too deeply.
    """
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_no_repeated_keys)
    except json.JSONDecodeError as error:
        raise Rejected(
            f"line {error.lineno}, column {error.colno}", f"not JSON: {error.msg}"
        ) from None
    except UnicodeDecodeError as error:
        raise Rejected(f"byte {error.start}", "not JSON: not UTF-8 text") from None
    except RecursionError:
        raise Rejected("", "nested too deeply to be a puzzle") from None
    except Rejected:
        raise
    except ValueError as error:  # integers of thousands of digits
        raise Rejected("", f"not a puzzle: {error}") from None


def parse_grid(value: Any, place: str) -> np.ndarray:
    """Return the grid uint8 [height, width] of a list of rows.

    Raises:
        Rejected: when it is no rectangle of 1x1 to 30x30 integers from 0 to 9.
    """
    if not isinstance(value, list) or not value or not all(isinstance(row, list) for row in value):
        raise Rejected(place, "a grid must be a list of rows, at least one")
    height, width = len(value), len(value[0])
    for number, row in enumerate(value):
        if len(row) != width:
            raise Rejected(
                f"{place}[{number}]", f"ragged grid: {len(row)} cells, row 0 has {width}"
            )
    if not 1 <= width <= MAX_GRID or height > MAX_GRID:
        raise Rejected(
            place, f"a grid has 1 to {MAX_GRID} rows and columns, this is {height}x{width}"
        )
    if set(map(type, chain.from_iterable(value))) != {int}:
        at, cell = _first_cell(value, lambda cell: type(cell) is not int)
        raise Rejected(place + at, f"a cell must be an integer, not {_shorten(cell)}")
    cells = list(chain.from_iterable(value))
    if min(cells) < 0 or max(cells) > 9:
        at, cell = _first_cell(value, lambda cell: not 0 <= cell <= 9)
        raise Rejected(place + at, f"a colour is 0 to 9, not {_shorten(cell)}")
    return np.array(value, np.uint8)


def _first_cell(rows: list[list[Any]], is_bad: Any) -> tuple[str, Any]:
    return next(
        (f"[{r}][{c}]", cell)
        for r, row in enumerate(rows)
        for c, cell in enumerate(row)
        if is_bad(cell)
    )


def _shorten(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 40 else text[:37] + "..."


@dataclass
class Checker:
    """Turns JSON values into puzzles and keeps what is wrong with them."""

    faults: list[Fault] = field(default_factory=list)
    _files: dict[str, str] = field(default_factory=dict)
    """Puzzle name -> the file it was first seen in."""

    def add(self, file: str, place: str, reason: str) -> None:
        """Keep a fault."""
        self.faults.append(Fault(file, place, reason))

    def load(self, path: Path, file: str) -> Any:
        """Return the JSON value in a file, or None with a fault kept."""
        try:
            return parse_json(path.read_bytes())
        except OSError as error:
            self.add(file, "", f"cannot be read: {error.strerror}")
        except Rejected as error:
            self.add(file, *error.args)
        return None

    def puzzle(self, value: Any, file: str) -> Puzzle | None:
        """Return the puzzle that a file's JSON value is, or None with faults kept."""
        before = len(self.faults)
        if not isinstance(value, dict):
            self.add(file, "", 'a puzzle must be an object with "train" and "test"')
            return None
        for key in value.keys() - {"train", "test", "name"}:
            self.add(file, key, 'unknown key; a puzzle has "train", "test" and perhaps "name"')
        stem = file.rpartition("/")[2].removesuffix(".json")
        name = self._name(value.get("name", stem), file)
        train, test = (self._pairs(value.get(key), key, file) for key in ("train", "test"))
        self._repeated_tests(test, file)
        if len(self.faults) > before:
            return None
        keys = [key for key in value if key != "name"]
        return Puzzle(name, train, test, keys[0] == "test", stem + ".json")

    def _name(self, name: Any, file: str) -> str:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            reason = "letters, digits, '.', '+' and '-' make a name ('_' separates augmentations)"
            self.add(file, "name", f"{_shorten(name)} is no puzzle name: {reason}")
            return ""
        first = self._files.setdefault(name, file)
        if first != file:
            self.add(file, "name", f"duplicate id {name!r}: {first} has it too")
        return name

    def _pairs(self, value: Any, key: str, file: str) -> tuple[Pair, ...]:
        if not isinstance(value, list) or not value:
            self.add(file, key, "missing: there must be a list of at least one pair")
            return ()
        pairs = [self._pair(one, f"{key}[{number}]", file) for number, one in enumerate(value)]
        return tuple(pair for pair in pairs if pair is not None)

    def _pair(self, value: Any, place: str, file: str) -> Pair | None:
        if not isinstance(value, dict) or not {"input", "output"} <= value.keys():
            self.add(file, place, 'a pair must be an object with "input" and "output"')
            return None
        grids = []
        for key in ("input", "output"):
            try:
                grids.append(parse_grid(value[key], f"{place}.{key}"))
            except Rejected as error:
                self.add(file, *error.args)
        return Pair(*grids) if len(grids) == 2 else None

    def _repeated_tests(self, tests: Iterable[Pair], file: str) -> None:
        seen: set[tuple[tuple[int, ...], bytes]] = set()
        for number, pair in enumerate(tests):
            key = (pair.input.shape, pair.input.tobytes())
            if key in seen:
                self.add(
                    file,
                    f"test[{number}].input",
                    "duplicate test input: votes could not be told apart",
                )
            seen.add(key)

    def puzzle_set(self, name: str, values: dict[str, Any], where: str) -> PuzzleSet:
        """Return the puzzles of one folder: file name -> JSON value, from `where`."""
        puzzles = (self.puzzle(value, f"{where}/{file}") for file, value in values.items())
        return PuzzleSet(name, tuple(puzzle for puzzle in puzzles if puzzle is not None))

    def finish(self) -> None:
        """Raise what was found.

        Raises:
            UserError: with a line for each fault, if there is any.
        """
        if not self.faults:
            return
        by_file: dict[str, list[Fault]] = {}
        for fault in self.faults:
            by_file.setdefault(fault.file, []).append(fault)
        lines = [f"{len(by_file)} puzzle file(s) are not valid; nothing was written:"]
        for faults in by_file.values():
            lines += [f"  {fault}" for fault in faults[:FAULTS_SHOWN]]
            if len(faults) > FAULTS_SHOWN:
                lines.append(f"  {faults[0].file}: and {len(faults) - FAULTS_SHOWN} more")
        raise UserError("\n".join(lines))
