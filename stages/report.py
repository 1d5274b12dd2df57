"""The report: pages that assemble the suite's tables and figures, and all training curves."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.reporting.drafts import PUBLISHED_FILE, RUN, rows
from deeploop.stage import Draft, Job, Planned, Section, Stage

EXHIBITS = (
    *("table1", "p_sweep", "table2", "table4", "table3"),
    *("sweeps", "alignment", "check_theory"),
)
"""The stages whose tables and figures the report shows, in its order."""

TRAININGS = ("train_lm", "train_hrm")
"""The stages whose runs' curves follow."""


class ReportSection(Section):
    """What a suite may say about its report."""

    title: str = Field(default="DeepLoop: Depth Scaling for Looped Transformers")


def expand(section: ReportSection, plan: Planned) -> Iterator[Draft]:
    """Plan one report over the tables and the trainings that the suite has."""
    tables = [(stage, draft.name) for stage in EXHIBITS for draft in plan.of(stage)]
    trainings = [(stage, draft) for stage in TRAININGS for draft in plan.of(stage)]
    if tables or trainings:
        params = {
            "title": section.title,
            "suite": plan.suite,
            "exhibits": [stage for stage, _ in tables],
            "cells": [
                {**row, "groups": list(draft.groups)}
                for stage, draft in trainings
                for row in rows(stage, [draft])
            ],
        }
        inputs = (*tables, *((stage, draft.name) for stage, draft in trainings))
        yield Draft(name=RUN, params=params, inputs=inputs)


def run(job: Job) -> None:
    """Write `index.html`, `report.md`, `tables/` and `figures/`."""
    from deeploop.reporting import curves
    from deeploop.reporting.pages import Source, build
    from deeploop.reporting.runs import placed_runs

    sources = [Source(name, job.input(name).folder) for name in job.params["exhibits"]]
    if runs := placed_runs(job):
        curves.build(runs, job.work)
        sources.append(Source(curves.NAME, job.work))
    build(sources, job.params["title"], job.params["suite"], job.folder)


STAGE = Stage(
    name="report",
    about="The report: every table and figure of the suite, beside the published numbers",
    section=ReportSection,
    expand=expand,
    libraries=("jinja2", "matplotlib"),
    data=(PUBLISHED_FILE, "reports/templates/*"),
    exports="reports/{suite}",
    local=True,
)
