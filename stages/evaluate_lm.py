"""Stage `evaluate_lm`: downstream accuracy of trained language models (Tables 2 and 4).

One run a training, all tasks and shot counts in one process:

    evaluate_lm:
      source: samples
      tables:
        table2: {of: table1, backbone: medium}
        table4: {of: table1, backbone: small, loops: [1, 3, 5]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from deeploop.errors import UserError
from deeploop.evaluation.config import Evaluation, EvaluationExecution
from deeploop.evaluation.sources import split_files, task_folders
from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage, StageSection, resolved


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class Selection(Section):
    """Which trainings stand in one table."""

    of: str = "table1"
    """Group of `train_lm`."""
    backbone: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Only these backbones; all when empty."""
    loops: Annotated[tuple[int, ...], BeforeValidator(_listed)] = ()
    """Only these numbers of loops; all when empty."""
    seeds: Annotated[tuple[int, ...], BeforeValidator(_listed)] = ()
    """Only these seeds; all when empty."""

    def takes(self, cell: Mapping[str, Any]) -> bool:
        """Say whether a training in this place of a table is evaluated."""
        wanted = {"backbone": self.backbone, "loops": self.loops, "seed": self.seeds}
        return all(not values or cell[axis] in values for axis, values in wanted.items())


class EvaluateLMSection(Evaluation, StageSection):
    """What a suite evaluates, and how."""

    tables: dict[str, Selection] = Field(min_length=1)
    """Purpose (`table2`, `table4`) -> trainings."""
    gpus: int = Field(default=0, ge=0)
    """GPUs of one machine a run; `execution.processes` when 0."""
    gpu_hours: float = Field(default=0.0, ge=0)
    """Estimate for a run; execution only."""
    execution: EvaluationExecution = EvaluationExecution()


def expand(section: EvaluateLMSection, plan: Planned) -> Iterator[Draft]:
    """Plan one run for each training that a table takes, under the training's name.

    Raises:
        UserError: a table takes no training, or the tasks' data is not to be had.
    """
    inputs, files = _data(section, plan)
    purposes: dict[str, list[str]] = {}
    for table, selection in section.tables.items():
        taken = [d for d in plan.of("train_lm", group=selection.of) if selection.takes(d.cell)]
        if not taken:
            raise UserError(f"tables.{table}: no training of group '{selection.of}' fits")
        for training in taken:
            purposes.setdefault(training.name, []).append(table)
    for training in plan.of("train_lm"):
        if training.name in purposes:
            yield Draft(
                name=training.name,
                params=_params(section),
                inputs=(("train_lm", training.name), *inputs),
                files=files,
                resources=_resources(section),
                execution=_execution(section),
                version=section.version,
                groups=tuple(purposes[training.name]),
                cell=training.cell,
            )


def run(job: Job) -> None:
    """Write `metrics.json` and `samples.parquet`, going on from the tasks that are finished."""
    from deeploop.evaluation.job import evaluate_job

    evaluate_job(job)


def _data(
    section: EvaluateLMSection, plan: Planned
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return the upstream runs and the user's files that hold the questions."""
    if section.source == "hub":
        fetched = {draft.name for draft in plan.of("fetch_tasks")}
        missing = [task for task in section.tasks if task not in fetched]
        if missing:
            raise UserError(
                f"source: hub needs {', '.join(missing)} in the suite's `fetch_tasks`; or name "
                "local files with source: mirror"
            )
        return tuple(("fetch_tasks", task) for task in section.tasks), ()
    if section.mirror is None:
        return (), ()
    mirror = plan.root / section.mirror
    folders = task_folders(mirror, section.tasks).values()
    files = (path for folder in folders for path in split_files(folder))
    return (), tuple(str(Path(section.mirror, path.relative_to(mirror))) for path in files)


def _params(section: EvaluateLMSection) -> dict[str, Any]:
    """Return what bears on the numbers; a mirror counts by its files' bytes, not by its place."""
    settings = Evaluation(**{name: getattr(section, name) for name in Evaluation.model_fields})
    return {name: value for name, value in resolved(settings).items() if name != "mirror"}


def _resources(section: EvaluateLMSection) -> Resources:
    return Resources(
        gpus=section.gpus,
        gpu_hours=section.gpu_hours,
        cpus=max(section.execution.processes, section.gpus) * section.execution.threads,
        memory_gb=32.0 if section.gpus else 4.0,
        minutes=max(30, round(90 * section.gpu_hours / max(section.gpus, 1))),
    )


def _execution(section: EvaluateLMSection) -> Mapping[str, Any]:
    execution = resolved(section.execution)
    return execution | {"processes": section.gpus or execution["processes"]}


STAGE = Stage(
    name="evaluate_lm",
    about="downstream accuracy of language models",
    section=EvaluateLMSection,
    expand=expand,
    libraries=("torch", "lm_eval", "datasets", "tiktoken", "pyarrow"),
    data=("deeploop/evaluation/samples/*/*.jsonl",),
)
