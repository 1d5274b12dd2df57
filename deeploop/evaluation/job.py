"""One `evaluate_lm` run: a trained model, and what came of its training."""

from __future__ import annotations

import json
from pathlib import Path

from deeploop.evaluation.config import Evaluation, EvaluationExecution
from deeploop.evaluation.evaluate import Conditions, Subject, evaluate
from deeploop.evaluation.sources import SAMPLES, task_folders
from deeploop.stage import Job


def evaluate_job(job: Job) -> None:
    """Evaluate a job's training on its tasks.

    A training that diverged has no accuracy: its results say so instead of failing.

    Raises:
        UserError: a task's files are not what they should be.
        BuildError: the model's log-likelihoods rank nothing.
        Interrupted: asked to stop; finished tasks are in `job.work`.
    """
    training = job.input("train_lm").folder
    folders = _folders(job)
    settings = Evaluation(**job.params, mirror=_mirror(job))
    conditions = Conditions(
        settings, folders, EvaluationExecution(**job.execution), job.telemetry, stop=job.stop
    )
    subject = Subject(training, job.folder, job.work, _outcome(training))
    evaluate([subject], conditions)


def _folders(job: Job) -> dict[str, Path]:
    tasks = job.params["tasks"]
    if job.params["source"] == "hub":
        return {task: job.input("fetch_tasks", task).folder for task in tasks}
    return task_folders(Path(_mirror(job) or SAMPLES), tasks)


def _mirror(job: Job) -> str | None:
    return str(job.files[0].parent.parent) if job.params["source"] == "mirror" else None


def _outcome(training: Path) -> str | None:
    """Return how the training ended: `trained`, `floor` or `diverged`."""
    return str(json.loads((training / "metrics.json").read_text())["outcome"])
