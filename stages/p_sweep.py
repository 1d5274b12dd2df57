"""Figure 6: loss against the residual-scaling exponent p, one marker a seed."""

from __future__ import annotations

from collections.abc import Iterator

from deeploop.reporting.drafts import PUBLISHED_FILE, table_draft
from deeploop.stage import Draft, Job, Planned, Section, Stage


class PSweepSection(Section):
    """What a suite may say about the p-sweep's figure: nothing."""


def expand(section: PSweepSection, plan: Planned) -> Iterator[Draft]:
    """Plan one figure over the trainings of group `p_sweep`."""
    return table_draft("train_lm", plan.of("train_lm", group="p_sweep"))


def run(job: Job) -> None:
    """Write `p_sweep.{json,csv,md,tex}` and the figures."""
    from deeploop.reporting import make
    from deeploop.reporting.artifacts import write_exhibit
    from deeploop.reporting.runs import placed_runs

    write_exhibit(make.p_sweep(placed_runs(job), job.folder), job.folder)


STAGE = Stage(
    name="p_sweep",
    about="Figure 6: loss against the residual-scaling exponent p",
    section=PSweepSection,
    expand=expand,
    libraries=("matplotlib", "polars"),
    data=(PUBLISHED_FILE,),
    local=True,
)
