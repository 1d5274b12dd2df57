"""The parts of a split: what they hold, and writing them with their checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeploop.errors import Interrupted
from deeploop.fileio import sha256_file
from deeploop.text.shards import Tokens, part_name, write_part
from deeploop.text.units import writing

PART_TOKENS = 2**30
"""A longer unit becomes several parts: the format's header counts in 31 bits."""
COPY_TOKENS = 2**22
"""Tokens copied at a time, to bound memory."""


@dataclass(frozen=True)
class Contents:
    """One split, ready to be written."""

    parts: Iterable[Iterable[Tokens]]
    """Each part as a series of uint16 arrays."""
    documents: int


def views(tokens: Tokens) -> Iterator[Tokens]:
    """Yield views of at most COPY_TOKENS tokens that make up `tokens`."""
    for start in range(0, len(tokens), COPY_TOKENS):
        yield tokens[start : start + COPY_TOKENS]


def write_split(
    folder: Path, split: str, contents: Contents, stop: Callable[[], bool]
) -> dict[str, Any]:
    """Write the parts of a split; return what the manifest says of it.

    Raises:
        BuildError: a part cannot be written.
        Interrupted: `stop` said so, between parts.
    """
    written: list[dict[str, Any]] = []
    total = 0
    for index, chunks in enumerate(contents.parts):
        if stop():
            raise Interrupted("it was stopped while shards were copied")
        path = folder / part_name(split, index)
        with writing(path.with_name(path.name + ".tmp")):
            tokens = write_part(path, chunks)
        total += tokens
        written.append({"file": path.name, "tokens": tokens, "sha256": sha256_file(path)})
    return {"tokens": total, "documents": contents.documents, "parts": written}
