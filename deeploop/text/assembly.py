"""From encoded units to the parts of both splits, each unit freed as soon as its parts are there.

Parts are written in the work folder, where they outlive a kill, and linked into the output folder
at the end; a unit out of which nothing is taken becomes a part as it is. So the disk holds the
tokens once, and one unit twice. A unit's parts hold for one split of one corpus; when anything has
changed since they were written, they do not, and a unit that was freed must be encoded again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from deeploop.errors import Interrupted
from deeploop.fileio import dump_json, read_json, sha256_file, write_atomically
from deeploop.text.parts import COPY_TOKENS, PART_TOKENS
from deeploop.text.shards import Tokens, part_name, write_part
from deeploop.text.split import Split
from deeploop.text.units import Documents, Task, writing

Part = dict[str, Any]
"""`file`, `tokens` and `sha256` of one part."""


class Assembly:
    """The parts of a split corpus."""

    def __init__(self, tasks: Sequence[Task], split: Split, work: Path) -> None:
        """Say what is to be written.

        Args:
            tasks: the finished units, in the order of the corpus.
            split: of these units.
            work: where parts are written.
        """
        self.tasks, self.split, self.work = tasks, split, work
        made_of = repr((split, [task.stamp() for task in tasks], PART_TOKENS))
        self.stamp = sha256(made_of.encode()).hexdigest()
        self._validation_record = work / "validation.parts.json"

    def lost(self) -> list[Task]:
        """Return the units that were freed and whose parts do not hold.

        Call it, and encode them again, before `write`.
        """
        freed = [task for task in self.tasks if task.is_freed]
        if freed and self._held(self._validation_record) is None:
            return freed
        return [task for task in freed if self._held(task.parts_path) is None]

    def write(self, stop: Callable[[], bool]) -> dict[str, list[Part]]:
        """Write what is not there, freeing units; return the parts of each split.

        Raises:
            BuildError: a part cannot be written.
            Interrupted: `stop` said so, between units.
        """
        validation = self._held(self._validation_record)
        if validation is None:
            parts = [self._validation()] if self.split.threshold is not None else []
            validation = self._write(self._validation_record, parts)
        train: list[Part] = []
        for index, task in enumerate(self.tasks):
            if stop():
                raise Interrupted("tokenization was stopped; finished files are kept")
            held = self._held(task.parts_path) if task.is_freed else None
            train.extend(self._free(index) if held is None else held)
        return {"train": train} | ({"validation": validation} if validation else {})

    def documents(self) -> dict[str, int]:
        """Count the documents of each split."""
        held_out = 0
        for index in range(len(self.tasks)):
            documents, _ = self._kept(index)
            held_out += int(self.split.is_validation(documents).sum())
        return {"train": sum(self.split.kept) - held_out, "validation": held_out}

    def _held(self, record: Path) -> list[Part] | None:
        """Return the parts that a record names, if they were made for this split and hold."""
        content = read_json(record)
        if not isinstance(content, dict) or content.get("stamp") != self.stamp:
            return None
        parts: list[Part] = content["parts"]
        for part in parts:
            path = self.work / part["file"]
            if not path.is_file() or sha256_file(path) != part["sha256"]:
                return None
        return parts

    def _write(self, record: Path, parts: Iterable[Iterable[Tokens]]) -> list[Part]:
        written: list[Part] = []
        for index, chunks in enumerate(parts):
            path = record.with_name(_part_file(record, index))
            with writing(path.with_name(path.name + ".tmp")):
                tokens = write_part(path, chunks)
                written.append({"file": path.name, "tokens": tokens, "sha256": sha256_file(path)})
        self._record(record, written)
        return written

    def _record(self, record: Path, parts: list[Part]) -> None:
        with writing(record.with_name(f".{record.name}.tmp")):
            write_atomically(record, dump_json({"stamp": self.stamp, "parts": parts}))

    def _free(self, index: int) -> list[Part]:
        """Put a unit's parts in the place of its ids."""
        task = self.tasks[index]
        if (whole := self._whole(index)) is not None:
            self._record(task.parts_path, [whole])
            task.tokens_path.rename(self.work / whole["file"])
            return [whole]
        parts = self._write(task.parts_path, self._train_parts(index))
        task.tokens_path.unlink()
        return parts

    def _whole(self, index: int) -> Part | None:
        """Return a unit as a part, if nothing is taken out of it and it is not too long."""
        task = self.tasks[index]
        record = read_json(task.record_path)
        documents, _ = self._kept(index)
        if len(documents) < record["documents"] or self.split.is_validation(documents).any():
            return None
        if not 0 < record["tokens"] <= PART_TOKENS:
            return None
        name = _part_file(task.parts_path, 0)
        return {"file": name, "tokens": record["tokens"], "sha256": record["sha256"]}

    def _kept(self, index: int) -> tuple[Documents, Any]:
        """Return one unit's kept documents, and where the tokens of each end."""
        documents = self.tasks[index].documents()[: self.split.kept[index]]
        return documents, np.cumsum(documents["tokens"], dtype=np.int64)

    def _train_parts(self, index: int) -> Iterator[Iterator[Tokens]]:
        """Yield one unit's training tokens as parts of at most PART_TOKENS, in pieces."""
        pieces = _cut(self._train_stretches(index), COPY_TOKENS)
        for part in _grouped(pieces, PART_TOKENS):
            yield (self.tasks[index].tokens(begin, end) for begin, end in part)

    def _train_stretches(self, index: int) -> Iterator[tuple[int, int]]:
        """Yield where training tokens begin and end, between the documents that are taken out."""
        documents, ends = self._kept(index)
        begin = 0
        for row in np.flatnonzero(self.split.is_validation(documents)):
            yield begin, int(ends[row] - documents["tokens"][row])
            begin = int(ends[row])
        yield begin, int(ends[-1]) if len(ends) else 0

    def _validation(self) -> list[Tokens]:
        """Return the validation documents in the order of their hashes."""
        found: list[tuple[int, Tokens]] = []
        for index, task in enumerate(self.tasks):
            documents, ends = self._kept(index)
            for row in np.flatnonzero(self.split.is_validation(documents)):
                begin = int(ends[row] - documents["tokens"][row])
                found.append((int(documents["hash"][row]), task.tokens(begin, int(ends[row]))))
        found.sort(key=lambda pair: pair[0])
        return [tokens for _, tokens in found]


def place_parts(parts: Sequence[Part], work: Path, folder: Path, split: str) -> list[Part]:
    """Put parts into the output folder under their final names; return them so named.

    They are links, so that a kill before the outputs are complete loses nothing; where the file
    system has none they are moved.
    """
    placed: list[Part] = []
    for index, part in enumerate(parts):
        target = folder / part_name(split, index)
        try:
            os.link(work / part["file"], target)
        except OSError:
            (work / part["file"]).rename(target)
        placed.append({**part, "file": target.name})
    return placed


def _part_file(record: Path, index: int) -> str:
    """Return the name of a part in the work folder, from its unit's record."""
    return f"{record.name.removesuffix('.json')}-{index:02d}.bin"


def _cut(stretches: Iterator[tuple[int, int]], longest: int) -> Iterator[tuple[int, int]]:
    """Cut stretches into pieces of at most `longest`, leaving out empty ones."""
    for begin, end in stretches:
        for start in range(begin, end, longest):
            yield start, min(start + longest, end)


def _grouped(pieces: Iterator[tuple[int, int]], room: int) -> Iterator[list[tuple[int, int]]]:
    """Group consecutive pieces while together they are at most `room` long."""
    group: list[tuple[int, int]] = []
    held = 0
    for begin, end in pieces:
        if group and held + end - begin > room:
            yield group
            group, held = [], 0
        group.append((begin, end))
        held += end - begin
    if group:
        yield group
