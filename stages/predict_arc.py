"""Stage `predict_arc`: a trained model's answer to every augmented test row, for the vote.

HRM takes all halting segments for every row; the looped GPT writes its answer greedily, token by
token. A run's output is `predictions.parquet`: puzzle identifier, input, label, prediction and a
logit of being right (HRM's of halting, the GPT's of its answer) of each row of the test split.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage, StageSection, resolved

TRAININGS = ("train_hrm", "train_arc_lm")


class PredictExecution(Section):
    """How predictions are made. Never part of identity."""

    processes: int = Field(default=1, gt=0)
    batch_rows: int = Field(default=256, gt=0)
    """Rows a device works on at once."""
    device: str = Field(default="auto", pattern="^(auto|cpu|cuda)$")
    threads: int = Field(default=1, gt=0)
    """CPU threads a process."""
    compile: str = Field(default="none", pattern="^(none|block|model)$")


class PredictCost(Section):
    """What one run asks of a cluster; execution only."""

    gpus: int = Field(default=0, ge=0)
    gpu_hours: float = Field(default=0.0, ge=0)
    """Our estimate."""
    memory_gb: float = Field(default=4.0, gt=0)


class PredictArcSection(StageSection):
    """What a suite may say about predictions."""

    cost: PredictCost = PredictCost()
    execution: PredictExecution = PredictExecution()


def expand(section: PredictArcSection, plan: Planned) -> Iterator[Draft]:
    """Plan one run for each training, under its name."""
    cost = section.cost
    trainings = ((stage, draft) for stage in TRAININGS for draft in plan.of(stage))
    for stage, training in trainings:
        dataset = next(run for origin, run in training.inputs if origin == "build_arc")
        processes = cost.gpus or section.execution.processes
        yield Draft(
            name=training.name,
            params={},
            inputs=((stage, training.name), ("build_arc", dataset)),
            resources=Resources(
                gpus=cost.gpus,
                gpu_hours=cost.gpu_hours,
                cpus=max(1, 4 * cost.gpus),
                memory_gb=cost.memory_gb,
                minutes=max(30, round(75 * cost.gpu_hours / max(cost.gpus, 1))),
            ),
            execution=resolved(section.execution) | {"processes": processes},
            version=section.version,
            groups=training.groups,
            cell=training.cell,
        )


def run(job: Job) -> None:
    """Predict, resuming where an interrupted attempt left off."""
    from deeploop.evaluation.arc_prediction import predict_arc

    training = next(one for one in job.inputs if one.stage in TRAININGS)
    predict_arc(
        kind="hrm" if training.stage == "train_hrm" else "gpt",
        model_folder=training.folder,
        data_folder=job.input("build_arc").folder,
        folder=job.folder,
        work=job.work,
        execution=job.execution,
        telemetry=job.telemetry,
        stop=job.stop,
        label=job.run,
    )


STAGE = Stage(
    name="predict_arc",
    about="answers to all augmented test rows",
    section=PredictArcSection,
    expand=expand,
    pinned=True,
    libraries=("torch", "numpy", "safetensors", "polars"),
)
