"""Sweeps that the paper lacks: which settings train, and how well."""

from __future__ import annotations

from collections.abc import Iterator

from deeploop.reporting.drafts import RUN, rows
from deeploop.stage import Draft, Job, Planned, Section, Stage


class SweepsSection(Section):
    """Which groups of language-model trainings are shown."""

    groups: tuple[str, ...] = ("alpha_or_beta_alone", "beta_targets", "norm_placement")


def expand(section: SweepsSection, plan: Planned) -> Iterator[Draft]:
    """Plan one table over the groups that the suite has."""
    by_group = {name: plan.of("train_lm", group=name) for name in section.groups}
    drafts = {draft.name: draft for group in by_group.values() for draft in group}
    if drafts:
        groups = {name: [f"train_lm/{d.name}" for d in found] for name, found in by_group.items()}
        yield Draft(
            name=RUN,
            params={"cells": rows("train_lm", drafts.values()), "groups": groups},
            inputs=tuple(("train_lm", name) for name in drafts),
        )


def run(job: Job) -> None:
    """Write `sweeps.{json,csv,md,tex}`."""
    from deeploop.reporting.artifacts import write_exhibit
    from deeploop.reporting.make import sweeps
    from deeploop.reporting.runs import placed_runs

    write_exhibit(sweeps(placed_runs(job), job.params["groups"]), job.folder)


STAGE = Stage(
    name="sweeps",
    about="sweeps that the paper lacks: alpha or beta alone, beta's matrices, Pre-LN",
    section=SweepsSection,
    expand=expand,
    libraries=("polars",),
    local=True,
)
