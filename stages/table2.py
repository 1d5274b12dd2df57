"""Table 2 and Figure 3: downstream accuracy of the medium backbone."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.reporting.drafts import PUBLISHED_FILE, table_draft
from deeploop.stage import Draft, Job, Planned, Section, Stage


class Table2Section(Section):
    """What a suite may say about Table 2."""

    published_backbone: str = Field(default="medium")
    """Backbone whose published values stand beside those of a backbone the paper does not have."""


def expand(section: Table2Section, plan: Planned) -> Iterator[Draft]:
    """Plan one table over the evaluations of group `table2`."""
    params = {"published_backbone": section.published_backbone}
    return table_draft("evaluate_lm", plan.of("evaluate_lm", group="table2"), params)


def run(job: Job) -> None:
    """Write `table2.{json,csv,md,tex}` and the figures."""
    from deeploop.reporting.artifacts import write_exhibit
    from deeploop.reporting.make import downstream
    from deeploop.reporting.runs import placed_runs

    beside = job.params["published_backbone"]
    write_exhibit(downstream("table2", placed_runs(job), beside, job.folder), job.folder)


STAGE = Stage(
    name="table2",
    about="Table 2 and Figure 3: downstream accuracy of the medium backbone",
    section=Table2Section,
    expand=expand,
    libraries=("matplotlib", "polars"),
    data=(PUBLISHED_FILE,),
    local=True,
)
