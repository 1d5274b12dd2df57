"""An exhibit: one table or figure group of the report, as data.

Every table stage writes one (`<name>.json`, beside its table as Markdown, CSV and LaTeX and its
figures), and the report is a pure function of exhibits: a new table adds a stage, not a template.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from deeploop.errors import BuildError
from deeploop.reporting.cells import Cell
from deeploop.reporting.record import Record

Mark = Literal["", "best", "floor", "absent", "pending"]


class Entry(Record):
    """What one table cell shows. Plain text: each format escapes it for itself."""

    text: str
    spread: str = ""
    """Spread and count that belong to `text`."""
    detail: str = ""
    """Every seed's number, where there are several, and what is missing."""
    published: str = ""
    difference: str = ""
    """Reproduced minus published."""
    sort: float | None = None
    """Key by which the page sorts the column."""
    mark: Mark = ""
    runs: tuple[str, ...] = ()
    """The runs the number comes from, as `stage/name`."""


class Row(Record):
    """A line of a table."""

    label: str
    entries: tuple[Entry, ...]
    derived: bool = False
    """Computed from the lines above it, and stays below them when they are sorted."""


class Group(Record):
    """Lines under a common heading, e.g. a backbone."""

    label: str
    rows: tuple[Row, ...]


class Table(Record):
    """A table in the paper's layout."""

    corner: str
    """Heading of the column of row labels."""
    columns: tuple[str, ...]
    groups: tuple[Group, ...]
    detail_label: str = "each seed"
    notes: tuple[str, ...] = ()
    """What marks in the entries mean."""

    @property
    def compared(self) -> bool:
        """Whether any published number stands in it."""
        return any(e.published for group in self.groups for row in group.rows for e in row.entries)


class Drawing(Record):
    """A figure; its files are `<name>.svg`, `.pdf` and `.png`."""

    name: str
    title: str
    alt: str
    """What the figure shows, in words, for those who cannot see it."""
    wide: bool = False
    """Takes the page's full width."""


class Fact(Record):
    """A number for the head of the page."""

    label: str
    value: str


class Exhibit(Record):
    """One table or figure group."""

    name: str
    """The stage's name, and the stem of its files."""
    title: str
    source: str
    """Where the paper has it, e.g. `Table 1, Figure 2`."""
    about: str
    """What is shown and how it was measured."""
    table: Table | None = None
    drawings: tuple[Drawing, ...] = ()
    findings: tuple[str, ...] = ()
    """What these runs show, computed from them."""
    notes: tuple[str, ...] = ()
    """What a reader must know before comparing."""
    facts: tuple[Fact, ...] = ()
    cells: tuple[Cell, ...] = ()
    """The numbers behind the table, for machines."""


def read_exhibit(path: Path) -> Exhibit:
    """Read an exhibit's JSON file.

    Raises:
        BuildError: when the file is missing or is not an exhibit.
    """
    try:
        return Exhibit.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise BuildError(f"{path}: not a readable table: {reason}; rebuild its stage") from error
