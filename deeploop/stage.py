"""What a stage is: its declaration, the runs it plans, and the job it is handed.

A leaf module: every stage imports it, so nothing here counts as a stage's code (see
`deeploop.code`). A stage is one module in `stages/` with a `STAGE` declaration and a function
`run(job)`; both engines are generated from the declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """Base of everything that is read from `params.yaml`: frozen, and no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class StageSection(Section):
    """What a suite may say about any stage."""

    version: int = Field(default=1, ge=1)
    """Raise it to build the stage's runs anew: dear stages do not follow their code."""


def resolved(model: BaseModel) -> dict[str, Any]:
    """Return a setting's values as plain JSON for a specification.

    A field marked `neutral` (one added after results existed) is left out while it has its
    default, so that adding it re-keys nothing.
    """
    values: dict[str, Any] = {}
    for name, field_info in type(model).model_fields.items():
        value = getattr(model, name)
        extra = field_info.json_schema_extra
        neutral = isinstance(extra, dict) and extra.get("neutral")
        if neutral and value == field_info.get_default(call_default_factory=True):
            continue
        values[name] = resolved(value) if isinstance(value, BaseModel) else _plain(value)
    return values


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


@dataclass(frozen=True)
class Resources:
    """What one run asks of a cluster. Execution only: never part of a run's identity."""

    gpus: int = 0
    """GPUs in total, over all nodes."""
    nodes: int = 1
    gpu_hours: float = 0.0
    """Estimated cost."""
    estimate: str = "ours"
    """Where the estimate comes from: 'paper' (its cost table or budget) or 'ours'."""
    cpus: int = 1
    memory_gb: float = 4.0
    minutes: int = 30
    """Wall-clock to ask for; a training that needs more is requeued and resumes."""
    network: bool = False
    """Runs where there is network (the login node)."""

    @classmethod
    def of_training(
        cls, gpus: int, nodes: int, gpu_hours: float, memory_gb: float, estimate: str = "ours"
    ) -> Resources:
        """Return what a training asks for: four cores a GPU, a quarter more time than estimated."""
        return cls(
            gpus=gpus,
            nodes=nodes,
            gpu_hours=gpu_hours,
            estimate=estimate,
            cpus=max(1, 4 * gpus // nodes),
            memory_gb=memory_gb,
            minutes=max(30, round(1.25 * 60 * gpu_hours / max(gpus, 1))),
        )

    @property
    def memory_mb(self) -> int:
        """Memory in the unit that clusters count in."""
        return round(1024 * self.memory_gb)

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each node."""
        return -(-self.gpus // self.nodes)

    @property
    def gres(self) -> str:
        """GPUs of a node as Slurm names them, '' for none."""
        return f"gpu:{self.gpus_per_node}" if self.gpus else ""


@dataclass(frozen=True)
class Plot:
    """A curve that `dvc plots show` draws from a table among a run's exported files."""

    name: str
    file: str
    """CSV, relative to the stage's `exports`."""
    x: str
    y: tuple[str, ...]
    """Columns."""
    y_label: str


@dataclass(frozen=True)
class Draft:
    """One run as a stage's `expand` plans it, before names are resolved to upstream runs."""

    name: str
    """Readable and stable, e.g. `small-deeploop-r3-s0`."""
    params: Mapping[str, Any]
    """Every resolved value that bears on the result."""
    inputs: tuple[tuple[str, str], ...] = ()
    """Upstream runs as (stage, run)."""
    files: tuple[str, ...] = ()
    """Files of the user's that are read, relative to the project; their digests enter identity."""
    resources: Resources = Resources()
    execution: Mapping[str, Any] = field(default_factory=dict)
    """Values that do not bear on the result: processes, micro-batch, intervals, budgets."""
    version: int = 1
    """Raised to rebuild a pinned run whose code has changed."""
    groups: tuple[str, ...] = ()
    """What the run is for (`table1`, `p_sweep`): tables pick their rows by it."""
    cell: Mapping[str, Any] = field(default_factory=dict)
    """Where the run stands in a table: backbone, scaling, loops, seed."""
    metrics: tuple[str, ...] = ()
    """JSON files among the exported ones that `dvc metrics` shows. Like plots, a view only."""
    plots: tuple[Plot, ...] = ()


class Planned(Protocol):
    """What `expand` may ask of the plan so far."""

    @property
    def suite(self) -> str:
        """The suite being planned."""

    @property
    def root(self) -> Path:
        """The project folder; the user's files are named relative to it."""

    def of(self, stage: str, group: str | None = None) -> list[Draft]:
        """Return the drafts of an earlier stage, in plan order, of one group or of all."""

    def shared(self, kind: str, name: str) -> Mapping[str, Any]:
        """Return an entry of a shared section of params.yaml (`backbones`, `recipes`)."""


@dataclass(frozen=True)
class Stage:
    """Declaration of a stage."""

    name: str
    about: str
    """One line for `deeploop plan` and the report."""
    section: type[Section]
    """What a suite may say about the stage in params.yaml."""
    expand: Callable[[Any, Planned], Iterable[Draft]]
    """Section and plan so far -> runs."""
    pinned: bool = False
    """Dear: code and library versions are recorded but do not rebuild; `version` does."""
    version: int = 1
    libraries: tuple[str, ...] = ()
    """Distributions whose public version bears on the result."""
    data: tuple[str, ...] = ()
    """Globs of project files the code reads (templates, samples); part of the code."""
    exports: str = ""
    """Project folder that shows the outputs to people, e.g. `reports/{suite}`."""
    local: bool = False
    """Cheap: runs where the engine runs, not as a cluster job."""


@dataclass(frozen=True)
class Input:
    """One upstream run's finished outputs."""

    stage: str
    run: str
    folder: Path
    """Read-only."""


@dataclass
class Job:
    """What `run(job)` is handed: resolved parameters, inputs, and where to write.

    Every file left in `folder` when `run` returns is an output and is hashed, so it must be
    deterministic: no times, hosts or random order. What an interrupted job needs to resume lives
    in `work`, which outlives interruptions and is removed once the run is complete.
    """

    suite: str
    stage: str
    run: str
    params: Mapping[str, Any]
    inputs: tuple[Input, ...]
    files: tuple[Path, ...]
    """The user's files of the draft, verified against the digests in the specification."""
    folder: Path
    work: Path
    execution: Mapping[str, Any]
    telemetry: Path
    """JSON lines of rates and times, appended; never an output."""
    stop: Callable[[], bool] = lambda: False
    """True once SIGTERM or SIGINT asked to stop: save to `work`, then raise `Interrupted`."""

    def input(self, stage: str, run: str | None = None) -> Input:
        """Return the one input of `stage` (named `run`).

        Raises:
            KeyError: when there is none.
        """
        for candidate in self.inputs:
            if candidate.stage == stage and run in (None, candidate.run):
                return candidate
        raise KeyError(f"{self.stage}/{self.run} has no input {stage}/{run or '*'}")
