"""Training curves of every run of the suite."""

from __future__ import annotations

from collections.abc import Iterator

from deeploop.reporting.drafts import RUN, rows
from deeploop.stage import Draft, Job, Planned, Section, Stage

TRAININGS = ("train_lm", "train_hrm")


class TrainingCurvesSection(Section):
    """What a suite may say about the training curves: nothing."""


def expand(section: TrainingCurvesSection, plan: Planned) -> Iterator[Draft]:
    """Plan one figure group over all trainings."""
    drafts = [(stage, draft) for stage in TRAININGS for draft in plan.of(stage)]
    if drafts:
        cells = [
            {**row, "groups": list(draft.groups)}
            for stage, draft in drafts
            for row in rows(stage, [draft])
        ]
        inputs = tuple((stage, draft.name) for stage, draft in drafts)
        yield Draft(name=RUN, params={"cells": cells}, inputs=inputs)


def run(job: Job) -> None:
    """Write `training_curves.json`, the thinned curves and the figures."""
    from deeploop.reporting.curves import build
    from deeploop.reporting.runs import placed_runs

    build(placed_runs(job), job.folder)


STAGE = Stage(
    name="training_curves",
    about="Training curves of every run",
    section=TrainingCurvesSection,
    expand=expand,
    libraries=("matplotlib",),
    local=True,
)
