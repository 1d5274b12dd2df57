"""The harness check as a table: a published checkpoint's score on this pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from deeploop.reporting.drafts import table_draft
from deeploop.stage import Draft, Job, Planned, Section, Stage


class HarnessTableSection(Section):
    """What a suite may say about the harness check's table: nothing."""


def expand(section: HarnessTableSection, plan: Planned) -> Iterator[Draft]:
    """Plan one table over all checks."""
    return table_draft("hrm_harness_check", plan.of("hrm_harness_check"))


def run(job: Job) -> None:
    """Write `harness.{json,csv,md,tex}`."""
    from deeploop.reporting.artifacts import write_exhibit
    from deeploop.reporting.harness_table import exhibit
    from deeploop.reporting.runs import placed_runs

    write_exhibit(exhibit(placed_runs(job)), job.folder)


STAGE = Stage(
    name="harness",
    about="the harness check: a published checkpoint's score on this pipeline",
    section=HarnessTableSection,
    expand=expand,
    libraries=("polars",),
    local=True,
)
