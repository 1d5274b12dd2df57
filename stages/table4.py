"""Table 4, Figures 4 and 5: downstream accuracy of the small backbone."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.reporting.drafts import PUBLISHED_FILE, table_draft
from deeploop.stage import Draft, Job, Planned, Section, Stage


class Table4Section(Section):
    """What a suite may say about Table 4."""

    published_backbone: str = Field(default="small")
    """Backbone whose published values stand beside those of a backbone the paper does not have."""


def expand(section: Table4Section, plan: Planned) -> Iterator[Draft]:
    """Plan one table over the evaluations of group `table4`."""
    params = {"published_backbone": section.published_backbone}
    return table_draft("evaluate_lm", plan.of("evaluate_lm", group="table4"), params)


def run(job: Job) -> None:
    """Write `table4.{json,csv,md,tex}` and the figures."""
    from deeploop.reporting.artifacts import write_exhibit
    from deeploop.reporting.make import downstream
    from deeploop.reporting.runs import placed_runs

    beside = job.params["published_backbone"]
    write_exhibit(downstream("table4", placed_runs(job), beside, job.folder), job.folder)


STAGE = Stage(
    name="table4",
    about="Table 4, Figures 4 and 5: downstream accuracy of the small backbone",
    section=Table4Section,
    expand=expand,
    libraries=("matplotlib", "polars"),
    data=(PUBLISHED_FILE,),
    local=True,
)
