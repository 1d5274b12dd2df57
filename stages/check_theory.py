"""The theory checked numerically: Lemma 1, and both propositions on random looped stacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from deeploop.reporting.drafts import RUN
from deeploop.stage import Draft, Job, Planned, Stage, StageSection


class CheckTheorySection(StageSection):
    """The stacks that are drawn."""

    blocks: int = Field(default=2, ge=1)
    """K, fixed while R grows."""
    hidden_size: int = Field(default=12, ge=2)
    loops: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(1, 2, 4, 8, 16), min_length=2)
    seeds: int = Field(default=2, ge=1)
    """Stacks of each kind."""


def expand(section: CheckTheorySection, plan: Planned) -> Iterator[Draft]:
    """Plan the one check."""
    params = section.model_dump(mode="json", exclude={"version"})
    yield Draft(name=RUN, params=params, version=section.version)


def run(job: Job) -> None:
    """Write `check_theory.{json,csv,md,tex}` and the figures."""
    from deeploop.analysis.theory_check import check
    from deeploop.reporting.artifacts import write_exhibit
    from deeploop.reporting.theory_exhibit import draw, exhibit

    found = check(**job.params)
    write_exhibit(exhibit(found, draw(found, job.folder)), job.folder)


STAGE = Stage(
    name="check_theory",
    about="Lemma 1 and both propositions on random looped stacks",
    section=CheckTheorySection,
    expand=expand,
    libraries=("torch", "numpy", "matplotlib"),
)
