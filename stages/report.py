"""The report: pages that assemble the suite's tables and figures, and all training curves."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.reporting.drafts import EXHIBITS, PUBLISHED_FILE, RUN, rows
from deeploop.reporting.names import slug
from deeploop.stage import Draft, Job, Planned, Plot, Section, Stage

TRAININGS = ("train_lm", "train_hrm", "train_arc_lm")
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
        yield Draft(
            name=RUN,
            params=params,
            inputs=inputs,
            metrics=("tables/metrics.json",),
            plots=tuple(_plots(plan)),
        )


def _plots(plan: Planned) -> Iterator[Plot]:
    """Yield the curves that DVC shows: loss against R for each backbone, and against p."""
    nats = "validation loss (nats per token)"
    trained = plan.of("train_lm", group="table1") if plan.of("table1") else []
    for backbone in dict.fromkeys(str(draft.cell["backbone"]) for draft in trained):
        name = f"loss-{slug(backbone)}"
        of = [draft for draft in trained if draft.cell["backbone"] == backbone]
        rules = tuple(dict.fromkeys(str(draft.cell["scaling"]) for draft in of))
        yield Plot(name, f"tables/{name}.csv", "loops", rules, nats)
    if plan.of("p_sweep"):
        yield Plot("p_sweep", "tables/p_sweep.csv", "p", ("trained_mean", "published"), nats)


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
