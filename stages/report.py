"""The report: pages that assemble the suite's tables and figures."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.reporting.drafts import PUBLISHED_FILE, RUN
from deeploop.stage import Draft, Job, Planned, Section, Stage

EXHIBITS = ("table1", "p_sweep", "table2", "table4", "table3", "training_curves")
"""The stages whose tables and figures the report shows, in its order."""


class ReportSection(Section):
    """What a suite may say about its report."""

    title: str = Field(default="DeepLoop: Depth Scaling for Looped Transformers")


def expand(section: ReportSection, plan: Planned) -> Iterator[Draft]:
    """Plan one report over the tables that the suite has."""
    present = [(stage, draft.name) for stage in EXHIBITS for draft in plan.of(stage)]
    if present:
        exhibits = [stage for stage, _ in present]
        params = {"title": section.title, "suite": plan.suite, "exhibits": exhibits}
        yield Draft(name=RUN, params=params, inputs=tuple(present))


def run(job: Job) -> None:
    """Write `index.html`, `report.md`, `tables/` and `figures/`."""
    from deeploop.reporting.pages import Source, build

    sources = [Source(name, job.input(name).folder) for name in job.params["exhibits"]]
    build(sources, job.params["title"], job.params["suite"], job.folder)


STAGE = Stage(
    name="report",
    about="The report: every table and figure of the suite, beside the published numbers",
    section=ReportSection,
    expand=expand,
    libraries=("jinja2",),
    data=(PUBLISHED_FILE, "reports/templates/*"),
    exports="reports/{suite}",
    local=True,
)
