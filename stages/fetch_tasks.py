"""Stage `fetch_tasks`: official data of downstream tasks, at pinned revisions, one run a task.

Runs where there is network. A suite whose evaluations use the project's samples or a mirror does
without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.evaluation.config import PAPER_TASKS
from deeploop.stage import Draft, Job, Planned, Resources, Stage, StageSection


class FetchTasksSection(StageSection):
    """Which tasks' data a suite fetches."""

    tasks: tuple[str, ...] = Field(default=PAPER_TASKS, min_length=1)
    """Names of lm-evaluation-harness with a pinned revision in `deeploop.evaluation.hub`."""


def expand(section: FetchTasksSection, plan: Planned) -> Iterator[Draft]:
    """Plan one run a task.

    Raises:
        UserError: a task's data is not pinned.
    """
    from deeploop.evaluation.hub import pinned

    for task in section.tasks:
        params = {"task": task, **vars(pinned(task))}
        resources = Resources(network=True)
        yield Draft(name=task, params=params, resources=resources, version=section.version)


def run(job: Job) -> None:
    """Write `<split>.parquet` for the splits that the task reads."""
    from deeploop.evaluation.hub import HubData, fetch

    params = dict(job.params)
    fetch(params.pop("task"), HubData(**params), job.folder)


STAGE = Stage(
    name="fetch_tasks",
    about="official data of the downstream tasks",
    section=FetchTasksSection,
    expand=expand,
    pinned=True,
    libraries=("datasets", "pyarrow"),
    local=True,
)
