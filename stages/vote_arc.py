"""Stage `vote_arc`: what a trained HRM's predictions score, one run a run of `predict_arc`.

A run's outputs are `metrics.json` (fractions right by K, puzzles and tests counted, ties that
mattered) and `top_votes.parquet` (the first candidates of each test, with their grids).

    vote_arc: {}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage, resolved


class VoteArc(Section):
    """How votes are counted."""

    ties: Literal["hash", "first_seen"] = "hash"
    """Order of candidates with equal votes and equal mean halting probability: by a hash of the
    grid, which no order of rows changes, or as in HRM's notebook, by the order of rows."""


def expand(section: VoteArc, plan: Planned) -> Iterator[Draft]:
    """Plan one run for each run of `predict_arc`, under its name."""
    for prediction in plan.of("predict_arc"):
        dataset = next(run for stage, run in prediction.inputs if stage == "build_arc")
        yield Draft(
            name=prediction.name,
            params=resolved(section),
            inputs=(("predict_arc", prediction.name), ("build_arc", dataset)),
            resources=Resources(memory_gb=4, minutes=10),
            groups=prediction.groups,
            cell=prediction.cell,
        )


def run(job: Job) -> None:
    """Count the votes of one run."""
    from deeploop.arc.verdict import decide

    predictions = job.input("predict_arc").folder / "predictions.parquet"
    decide(predictions, job.input("build_arc").folder, job.folder, job.params["ties"])


STAGE = Stage(
    name="vote_arc",
    about="the vote over augmentations, and its scores",
    section=VoteArc,
    expand=expand,
    libraries=("polars",),
)
