"""Evaluates model folders on the harness's tasks: all tasks and shot counts in one process."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.evaluation.config import Evaluation, EvaluationExecution
from deeploop.evaluation.results import TaskResult, saved, write_results

if TYPE_CHECKING:
    from deeploop.evaluation.adapter import LoopedLM
    from deeploop.evaluation.harness import LoadedTask

DIVERGED = "diverged"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subject:
    """A model to evaluate, and where its results go."""

    model: Path
    folder: Path
    """For the results."""
    work: Path
    """Finished tasks of an interrupted evaluation."""
    outcome: str | None = None
    """How the training ended, where that is known; a diverged model is not evaluated."""


@dataclass(frozen=True)
class Conditions:
    """What all models of one call share."""

    settings: Evaluation
    folders: Mapping[str, Path]
    """Task -> folder with `<split>.parquet` or `.jsonl`."""
    execution: EvaluationExecution
    telemetry: Path | None = None
    """JSON lines of rates, appended."""
    tokenizer_files: Path | None = None
    stop: Callable[[], bool] = lambda: False


def evaluate(subjects: Sequence[Subject], conditions: Conditions) -> list[dict[str, Any]]:
    """Evaluate models one after the other on the same requests; return their metrics.

    Raises:
        UserError: a model folder, a task's name or a task's files are not what they should be.
        BuildError: a model's log-likelihoods rank nothing, or a process died.
        Interrupted: asked to stop; finished tasks are kept in each subject's `work`.
    """
    from deeploop.evaluation.harness import load_tasks

    tasks = load_tasks({task: conditions.folders[task] for task in conditions.settings.tasks})
    facts = _facts(conditions.settings, tasks)
    return [_evaluate(subject, conditions, tasks, facts) for subject in subjects]


def _evaluate(
    subject: Subject, conditions: Conditions, tasks: Sequence[LoadedTask], facts: dict[str, Any]
) -> dict[str, Any]:
    from deeploop.nn.folder import describe

    description = describe(subject.model)
    facts = {**facts, "context_length": description.window, "tokenizer": description.tokenizer}
    if subject.outcome is not None:
        facts["training_outcome"] = subject.outcome
    if subject.outcome == DIVERGED:
        return write_results(subject.folder, _nothing(conditions.settings), facts)
    _forget_others(subject, facts)
    results = list(_results(subject, conditions, tasks))
    return write_results(subject.folder, results, facts)


def _results(
    subject: Subject, conditions: Conditions, tasks: Sequence[LoadedTask]
) -> Iterator[TaskResult]:
    """Yield the result of each task and shot count, from `work` where it is finished."""
    with ExitStack() as stack:
        adapter: LoopedLM | None = None
        for task in tasks:
            for shots in conditions.settings.shots:
                result = saved(subject.work, task.name, shots)
                if result is None:
                    adapter = adapter or _open(subject.model, conditions, stack)
                    result = _measure(adapter, task, shots, conditions)
                    result.save(subject.work)
                yield result


def _nothing(settings: Evaluation) -> list[TaskResult]:
    summary = {"acc": None, "stderr": None, "n": 0, "ties": 0, "truncated": 0}
    return [
        TaskResult(task, shots, summary, []) for task in settings.tasks for shots in settings.shots
    ]


def _open(model: Path, conditions: Conditions, stack: ExitStack) -> LoopedLM:
    from deeploop.evaluation.adapter import LoopedLM
    from deeploop.evaluation.scorers import open_scorer
    from deeploop.nn.folder import describe
    from deeploop.text.tokenizers import load_tokenizer

    description = describe(model)
    tokenizer = load_tokenizer(description.tokenizer, conditions.tokenizer_files)
    rows = description.config.backbone.vocab_size
    if tokenizer.vocab_size > rows:
        raise UserError(
            f"{model}: tokenizer {tokenizer.name} has {tokenizer.vocab_size} ids, the model {rows}"
        )
    settings = conditions.settings
    scorer = stack.enter_context(
        open_scorer(model, conditions.execution, settings.precision, conditions.stop)
    )
    return LoopedLM(scorer, tokenizer, description.window, settings.batch_tokens)


def _measure(
    adapter: LoopedLM, loaded: LoadedTask, shots: int, conditions: Conditions
) -> TaskResult:
    from deeploop.evaluation.adapter import DegenerateScores
    from deeploop.evaluation.run_task import run_task

    if conditions.stop():
        raise Interrupted("evaluation stopped; finished tasks are kept")
    cut_before = adapter.truncated
    started, what = time.perf_counter(), f"task {loaded.name}, {shots}-shot"
    try:
        result = run_task(adapter, loaded.task, loaded.name, shots, conditions.settings.limit)
    except DegenerateScores as error:
        raise BuildError(f"{what}: {error}: this model cannot be ranked by them") from error
    except UserError as error:
        raise UserError(f"{what}: {error}") from error
    seconds = time.perf_counter() - started
    result.summary["truncated"] = adapter.truncated - cut_before
    log.info("%s: %s in %.1f s", what, _shown(result), seconds)
    if conditions.telemetry is not None:
        rate = {"task": loaded.name, "shots": shots, "seconds": seconds, "rows": len(result.rows)}
        with conditions.telemetry.open("a") as file:
            print(json.dumps({"time": time.time(), **rate}), file=file)
    return result


def _shown(result: TaskResult) -> str:
    name, value = result.metric, result.summary["acc" if result.metric == "acc" else "value"]
    return f"{name} {value:.4f} of {result.summary['n']}"


def _facts(settings: Evaluation, tasks: Sequence[LoadedTask]) -> dict[str, Any]:
    return {
        "source": settings.source,
        "precision": settings.precision,
        "batch_tokens": settings.batch_tokens,
        "limit": settings.limit,
        "data": {task.name: task.data for task in tasks},
        "versions": {
            "lm_eval": version("lm_eval"),
            "tasks": {task.name: task.version for task in tasks},
        },
    }


def _forget_others(subject: Subject, facts: dict[str, Any]) -> None:
    """Drop finished tasks of an evaluation of other weights, data or settings."""
    weights = {path.name: path.stat() for path in sorted(subject.model.glob("model.*"))}
    marks = {name: [stat.st_size, stat.st_mtime_ns] for name, stat in weights.items()}
    known = {key: facts[key] for key in sorted(facts) if key != "data"}
    state = json.dumps([str(subject.model.resolve()), marks, known, facts["data"]])
    mark = subject.work / "identity"
    digest = sha256(state.encode()).hexdigest()
    subject.work.mkdir(parents=True, exist_ok=True)
    if not mark.is_file() or mark.read_text() != digest:
        for path in subject.work.glob("*.json"):
            path.unlink()
        mark.write_text(digest)
