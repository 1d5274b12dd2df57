"""How a table stage plans its one run from the runs of the suite. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deeploop.stage import Draft

PAPER_EXHIBITS = ("table1", "p_sweep", "table2", "table4", "table3")
"""The stages whose numbers the paper has too: what its claims are judged by."""

EXHIBITS = (*PAPER_EXHIBITS, "sweeps", "alignment", "check_theory", "harness")
"""The stages whose tables and figures a report shows, in its order."""

RUN = "all"
"""Name of a table stage's one run."""

PUBLISHED_FILE = "reports/published.yaml"
"""Read by every table: part of its code."""


def rows(stage: str, drafts: Iterable[Draft]) -> list[dict[str, Any]]:
    """Return what a table's parameters say of its runs: address, place, groups."""
    return [{"run": f"{stage}/{draft.name}", **draft.cell} for draft in drafts]


def table_draft(
    stage: str, drafts: list[Draft], params: Mapping[str, Any] | None = None
) -> Iterator[Draft]:
    """Yield a table's run over `drafts` of `stage`; nothing when the suite has no such run."""
    if drafts:
        inputs = tuple((stage, draft.name) for draft in drafts)
        yield Draft(
            name=RUN, params={"cells": rows(stage, drafts), **(params or {})}, inputs=inputs
        )
