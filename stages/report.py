"""The report: pages that assemble the suite's tables and figures, and all training curves."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.reporting.drafts import PUBLISHED_FILE, RUN, rows
from deeploop.stage import Draft, Job, Planned, Section, Stage

EXHIBITS = ("table1", "p_sweep", "table2", "table4", "table3")
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
    from deeploop.reporting import curves, rule_table
    from deeploop.reporting.pages import Page, Source, build
    from deeploop.reporting.runs import placed_runs
    from deeploop.reporting.statement import statement

    sources = [Source(name, job.input(name).folder) for name in job.params["exhibits"]]
    if runs := placed_runs(job):
        sources.append(Source(curves.NAME, curves.build(runs, job.work / curves.NAME)))
    sources.insert(0, Source(rule_table.NAME, rule_table.build(job.work / rule_table.NAME)))
    suite = job.params["suite"]
    page = Page(title=job.params["title"], suite=suite, statement=statement(suite))
    build(sources, page, job.folder)


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
