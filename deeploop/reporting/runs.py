"""What training runs hand to the tables: where a run stands, how it ended, its curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from deeploop.errors import BuildError
from deeploop.reporting.cells import TRAINED, VALIDATION, Sample
from deeploop.stage import Job

METRICS = "metrics.json"


class Output(BaseModel):
    """Part of a run's output that tables read; what else is there is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TrainingMetrics(Output):
    """`metrics.json` of a language-model training."""

    validation_loss: float | None
    """The reported loss, nats per token; None where it is not finite."""
    unigram_floor: float | None = None
    """Loss of predicting by token frequency alone, on the same validation tokens."""
    outcome: str = TRAINED
    """`trained`, `floor` or `diverged`."""
    validation_loss_source: str = VALIDATION
    """How `validation_loss` came about: `validation`, or which train losses stood in for it."""
    steps: int
    """Optimizer steps made."""
    tokens: int
    """Training tokens seen."""
    parameters: int


class Validation(Output):
    """One validation."""

    step: int
    loss: float | None = None
    """None where it was not finite, or where a training validates something else (HRM)."""


class History(Output):
    """`history.json` of a training: columns with one entry an optimizer step, and validations."""

    step: tuple[int, ...]
    """1, 2, ...: the number of updates made."""
    loss: tuple[float | None, ...]
    """Train loss."""
    learning_rate: tuple[float | None, ...] = ()
    grad_norm: tuple[float | None, ...] = ()
    validations: tuple[Validation, ...] = ()


class Seen(Output):
    """How much a training saw: `metrics.json` of either kind of model."""

    steps: int | None = None
    tokens: int | None = None
    puzzles: int | None = None

    @property
    def per_step(self) -> float | None:
        """Tokens, or puzzles, an optimizer step."""
        count = self.puzzles if self.tokens is None else self.tokens
        return count / self.steps if count is not None and self.steps else None


class TaskAccuracy(Output):
    """One task's accuracy as a share."""

    acc: float | None
    stderr: float | None = None
    n: int
    """Items."""


class EvaluationMetrics(Output):
    """`metrics.json` of a downstream evaluation."""

    shots: dict[int, dict[str, TaskAccuracy]]
    """shots -> task -> accuracy."""
    source: str
    """Where the questions came from: `hub`, `mirror` or `samples`."""


class VoteMetrics(Output):
    """`metrics.json` of a vote over ARC predictions."""

    votes: dict[int, float]
    """Number of votes -> share of puzzles solved."""
    puzzles: int


@dataclass(frozen=True)
class PlacedRun:
    """A run, and the cell of a table it belongs to."""

    address: str
    """`stage/name`."""
    cell: Mapping[str, Any]
    """What the plan says of its place: backbone, scaling, p, loops, seed."""
    folder: Path | None
    """None while the run has no result."""

    @property
    def done(self) -> bool:
        """Whether the run has a result."""
        return self.folder is not None

    def training(self) -> TrainingMetrics:
        """Read a language-model training's `metrics.json`."""
        return read_output(self.file(METRICS), TrainingMetrics)

    def evaluation(self) -> EvaluationMetrics:
        """Read a downstream evaluation's `metrics.json`."""
        return read_output(self.file(METRICS), EvaluationMetrics)

    def vote(self) -> VoteMetrics:
        """Read a vote's `metrics.json`."""
        return read_output(self.file(METRICS), VoteMetrics)

    def seen(self) -> Seen:
        """Read how much a training saw from its `metrics.json`."""
        return read_output(self.file(METRICS), Seen)

    def history(self) -> History:
        """Read a training's `history.json`."""
        return read_output(self.file("history.json"), History)

    def file(self, name: str) -> Path:
        """Return the path of one of the result's files."""
        if self.folder is None:
            raise BuildError(f"{self.address} has no result yet")
        return self.folder / name


def placed_runs(job: Job) -> list[PlacedRun]:
    """Return the job's runs with their cells, in the plan's order (`params["cells"]`)."""
    folders = {f"{entry.stage}/{entry.run}": entry.folder for entry in job.inputs}
    return [
        PlacedRun(row["run"], {k: v for k, v in row.items() if k != "run"}, folders[row["run"]])
        for row in job.params["cells"]
    ]


def loss_sample(run: PlacedRun, metrics: TrainingMetrics) -> Sample:
    """Return a training's reported loss as a table's number."""
    return Sample(
        run=run.address,
        seed=run.cell["seed"],
        value=metrics.validation_loss,
        outcome=metrics.outcome,
        reported=metrics.validation_loss_source,
    )


Read = TypeVar("Read", bound=BaseModel)


def read_output(path: Path, model: type[Read]) -> Read:
    """Read one of a run's JSON outputs.

    Raises:
        BuildError: when the file is missing or does not hold what `model` says.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "content"
        raise BuildError(f"{path}: {place}: {first['msg']}; rebuild the run") from error
    except OSError as error:
        raise BuildError(f"{path}: {error.strerror}; rebuild the run") from error
