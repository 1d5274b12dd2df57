"""Table 1 and Figure 2: validation loss by backbone, residual scaling and R."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.reporting.drafts import PUBLISHED_FILE, table_draft
from deeploop.stage import Draft, Job, Planned, Section, Stage


class Table1Section(Section):
    """What a suite may say about Table 1."""

    published_backbone: str = Field(default="small")
    """Backbone whose published losses stand beside those of a backbone the paper does not have."""


def expand(section: Table1Section, plan: Planned) -> Iterator[Draft]:
    """Plan one table over the trainings of group `table1`."""
    params = {"published_backbone": section.published_backbone}
    return table_draft("train_lm", plan.of("train_lm", group="table1"), params)


def run(job: Job) -> None:
    """Write `table1.{json,csv,md,tex}` and the figures."""
    from deeploop.reporting.artifacts import write_exhibit
    from deeploop.reporting.make import losses
    from deeploop.reporting.runs import placed_runs

    table = losses(placed_runs(job), job.params["published_backbone"], job.folder)
    write_exhibit(table, job.folder)


STAGE = Stage(
    name="table1",
    about="Table 1 and Figure 2: validation loss by backbone, residual scaling and R",
    section=Table1Section,
    expand=expand,
    libraries=("matplotlib", "polars"),
    data=(PUBLISHED_FILE,),
    local=True,
)
