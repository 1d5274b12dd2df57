"""Stage `measure_alignment`: how aligned the visits of shared blocks are, along a training.

A stage on the outputs of trainings: their snapshots (`snapshot_steps` of the training), the
initial and the final weights. params.yaml says which trainings:

    measure_alignment:
      language_models: {of: table1, loops: [3, 5]}
      hrm: {of: table3}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from deeploop.errors import UserError
from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage, StageSection, resolved

Trained = Literal["train_lm", "train_hrm"]
DATA: dict[Trained, str] = {"train_lm": "tokenize", "train_hrm": "build_arc"}
"""The stage whose data the trained model is measured on."""


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class Chosen(Section):
    """Trainings of a group, and of them those that every given filter admits."""

    of: str
    """A group of the trainings' stage."""
    backbone: Annotated[tuple[str, ...], BeforeValidator(_listed)] | None = None
    scaling: Annotated[tuple[str, ...], BeforeValidator(_listed)] | None = None
    """Names of rules, as in the runs' names."""
    loops: Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_listed)] | None = (
        None
    )
    """All above 1 when absent: with R = 1 there is nothing to align."""
    seeds: Annotated[tuple[int, ...], BeforeValidator(_listed)] | None = None

    @model_validator(mode="after")
    def _looped(self) -> Chosen:
        if self.loops and 1 in self.loops:
            raise ValueError("loops: with R = 1 no block is visited twice; leave 1 out")
        return self

    def admits(self, cell: Any) -> bool:
        """Say whether a training with this cell is chosen."""
        rule = cell.get("scaling", cell.get("rule"))
        given = (
            (self.backbone, cell.get("backbone")),
            (self.scaling, rule),
            (self.loops, cell.get("loops")),
            (self.seeds, cell["seed"]),
        )
        looped = cell.get("loops", 2) > 1
        return looped and all(wanted is None or value in wanted for wanted, value in given)


class Measurement(Section):
    """What bears on the numbers."""

    batches: int = Field(default=8, gt=0)
    """Samples of the bootstrap."""
    rows: int = Field(default=4, gt=0)
    """Sequences or puzzles of a batch."""
    probes: int = Field(default=2, ge=0)
    """Random directions for the sensitivities a batch; 0 for kappa of gradients alone."""
    resamples: int = Field(default=1000, gt=0)
    """Bootstrap resamples of the batches."""
    seed: int = Field(default=0, ge=0)


class AlignmentExecution(Section):
    """How it is carried out; never part of identity."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = Field(default=1, gt=0)


class MeasureAlignmentSection(StageSection):
    """Which trainings a suite measures."""

    language_models: Chosen | None = None
    hrm: Chosen | None = None
    measurement: Measurement = Measurement()
    gpus: int = Field(default=0, ge=0)
    gpu_hours: float = Field(default=0.0, ge=0)
    """Our estimate of a run."""
    execution: AlignmentExecution = AlignmentExecution()

    @model_validator(mode="after")
    def _measures_something(self) -> MeasureAlignmentSection:
        if self.language_models is None and self.hrm is None:
            raise ValueError("give `language_models`, `hrm`, or both")
        return self


def expand(section: MeasureAlignmentSection, plan: Planned) -> Iterator[Draft]:
    """Plan one run for each training, under its name."""
    chosen: tuple[tuple[Trained, Chosen | None], ...] = (
        ("train_lm", section.language_models),
        ("train_hrm", section.hrm),
    )
    for stage, filters in chosen:
        if filters is None:
            continue
        group = plan.of(stage, group=filters.of)
        trainings = [training for training in group if filters.admits(training.cell)]
        if not trainings:
            found = f"{len(group)} runs of group '{filters.of}' in {stage}, none of them"
            raise UserError(f"{found} is looped and passes the filters")
        yield from (_draft(section, stage, training) for training in trainings)


def _draft(section: MeasureAlignmentSection, stage: Trained, training: Draft) -> Draft:
    data = next(up for up in training.inputs if up[0] == DATA[stage])
    own_start = not (training.params.get("init_from") or training.params.get("external"))
    return Draft(
        name=training.name,
        params={
            "kind": stage,
            "seed": training.params["training"]["seed"] if own_start else None,
            "measurement": resolved(section.measurement),
        },
        inputs=((stage, training.name), data),
        resources=Resources(
            gpus=section.gpus,
            gpu_hours=section.gpu_hours,
            memory_gb=32 if section.gpus else 4,
            minutes=max(30, round(90 * section.gpu_hours / max(section.gpus, 1))),
        ),
        execution=resolved(section.execution),
        version=section.version,
        groups=("alignment",),
        cell=training.cell,
    )


def run(job: Job) -> None:
    """Measure at every step there are weights of; steps measured before an interruption stay."""
    from deeploop.analysis.measurement import measure_training

    kind: Trained = job.params["kind"]
    measure_training(
        params=job.params,
        training=job.input(kind).folder,
        data=job.input(DATA[kind]).folder,
        folder=job.folder,
        work=job.work,
        execution=job.execution,
        stop=job.stop,
    )


STAGE = Stage(
    name="measure_alignment",
    about="visit alignment of looped models along their training",
    section=MeasureAlignmentSection,
    expand=expand,
    libraries=("torch", "numpy", "safetensors"),
)
