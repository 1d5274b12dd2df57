"""Base of the report's typed data: frozen, and strict about what it reads back from JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A value that is written to, and read back from, a table's JSON file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
