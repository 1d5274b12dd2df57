"""Documents from wherever they are: one interface, cut into units that are worked on apart.

A unit is the work of one process and what a restart does again as a whole. The documents of all
units, in order, are the corpus; how they fall into units bears on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from deeploop.text.docstrings import package_docstrings
from deeploop.text.files import FileFormat, read_documents

UNIT_BYTES = 32 * 2**20
"""Small files are taken together up to this size."""


class Document(NamedTuple):
    """One text and what identifies it."""

    id: str
    """Its hash decides the split. The text itself where a source has no ids, so that copies of
    one text never stand on both sides."""
    text: str


class Unit(Protocol):
    """A picklable piece of a corpus."""

    @property
    def label(self) -> str:
        """What it reads, for messages."""

    def stamp(self) -> str:
        """Return what tells this unit from another, for a restart in the same place."""

    def documents(self) -> Iterator[Document]:
        """Yield the documents, in an order that never changes.

        Raises:
            UserError: the source is missing, damaged, or not what the configuration says.
        """


@dataclass(frozen=True)
class DocstringUnit:
    """The docstrings of packages, each text once."""

    packages: tuple[tuple[str, str], ...]
    """Name and version."""

    @property
    def label(self) -> str:
        """What it reads, for messages."""
        return f"docstrings of {', '.join(name for name, _ in self.packages)}"

    def stamp(self) -> str:
        """Return the packages with their versions."""
        return repr(self.packages)

    def documents(self) -> Iterator[Document]:
        """Yield each docstring where it first appears: aliases and overloads repeat them."""
        seen: set[str] = set()
        for package, _ in self.packages:
            for text in package_docstrings(package):
                if text not in seen:
                    seen.add(text)
                    yield Document(id=text, text=text)


@dataclass(frozen=True)
class FileUnit:
    """The documents of consecutive files."""

    files: tuple[Path, ...]
    format: FileFormat

    @property
    def label(self) -> str:
        """What it reads, for messages."""
        first, last = self.files[0].name, self.files[-1].name
        return first if first == last else f"{first} to {last}"

    def stamp(self) -> str:
        """Return the files with their sizes and times, and how they are read."""
        seen = [(file.stat().st_size, file.stat().st_mtime_ns) for file in self.files]
        return repr((self.files, seen, self.format))

    def documents(self) -> Iterator[Document]:
        """Yield the documents of each file, as they are: copies are kept."""
        for file in self.files:
            yield from map(Document._make, read_documents(file, self.format))


def open_units(source: Mapping[str, Any], files: Sequence[Path]) -> list[Unit]:
    """Return the units of a source as `Corpus.resolve` describes it.

    Args:
        source: the resolved source, of kind `docstrings`, `files` or `fetched`.
        files: the files, in the order in which they are read.
    """
    if source["kind"] == "docstrings":
        return [DocstringUnit(tuple((name, version) for name, version in source["packages"]))]
    layout = FileFormat(source["format"], source["text"], source["id"], source["separator"])
    return [FileUnit(group, layout) for group in _grouped(files)]


def _grouped(files: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Take consecutive files together until they are worth a process's while."""
    group: list[Path] = []
    size = 0
    for file in files:
        group.append(file)
        size += file.stat().st_size
        if size >= UNIT_BYTES:
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)
