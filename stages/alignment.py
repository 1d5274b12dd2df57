"""Visit alignment against training step: the paper's future work, measured."""

from __future__ import annotations

from collections.abc import Iterator

from deeploop.reporting.drafts import table_draft
from deeploop.stage import Draft, Job, Planned, Section, Stage


class AlignmentSection(Section):
    """What a suite may say about alignment's table: nothing."""


def expand(section: AlignmentSection, plan: Planned) -> Iterator[Draft]:
    """Plan one table over all measured runs."""
    return table_draft("measure_alignment", plan.of("measure_alignment"))


def run(job: Job) -> None:
    """Write `alignment.{json,csv,md,tex}` and the figures."""
    from deeploop.reporting.artifacts import write_exhibit
    from deeploop.reporting.make import alignment
    from deeploop.reporting.runs import placed_runs

    write_exhibit(alignment(placed_runs(job), job.folder), job.folder)


STAGE = Stage(
    name="alignment",
    about="visit alignment against training step",
    section=AlignmentSection,
    expand=expand,
    libraries=("matplotlib", "polars"),
    local=True,
)
