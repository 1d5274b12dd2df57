"""One task at one shot count through the harness, as rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.model import LM
from lm_eval.evaluator import evaluate

from deeploop.evaluation.harness import tuned_harness
from deeploop.evaluation.results import TaskResult
from deeploop.evaluation.stock_task import StockTask

Sample = Mapping[str, Any]
"""A document with its answers, as the harness logs it."""


def run_task(
    model: LM, task: StockTask, name: str, shots: int, limit: int | None = None
) -> TaskResult:
    """Return what the harness finds with a model, ours or one of its own.

    Raises:
        DegenerateScores: the model's log-likelihoods rank nothing.
        UserError: the task cannot be run on this model.
    """
    task.set_shots(shots)
    with tuned_harness():
        found = evaluate(
            lm=model,
            task_dict={"tasks": {name: task}},
            limit=limit,
            bootstrap_iters=0,
            log_samples=True,
        )
    if found["n-shot"][name] != shots:
        raise RuntimeError(f"the harness ran {name} with {found['n-shot'][name]} shots")
    samples = _of_first_filter(found["samples"][name])
    rows = [row for sample in samples for row in _rows(task, name, shots, sample)]
    summary = _summary(found["results"][name], samples)
    summary |= {"n": len(samples), "ties": _ties(samples, task)}
    return TaskResult(name, shots, summary, rows)


def _of_first_filter(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample["filter"] == samples[0]["filter"]]


def _summary(found: Mapping[str, Any], samples: Sequence[Sample]) -> dict[str, Any]:
    """Return `acc` and its standard error, or name, value and standard error of another metric."""
    names = samples[0]["metrics"]
    metric = "acc" if "acc" in names else names[0]
    value = float(found[f"{metric},{samples[0]['filter']}"])
    stderr = _stderr([sample.get(metric) for sample in samples])
    if metric == "acc":
        return {"acc": value, "stderr": stderr}
    return {"metric": metric, "value": value, "stderr": stderr}


def _stderr(values: Sequence[Any]) -> float | None:
    """Return the standard error of a mean, as the harness defines it; None where it is not one."""
    if len(values) < 2 or not all(isinstance(value, int | float) for value in values):
        return None
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def _rows(task: StockTask, name: str, shots: int, sample: Sample) -> list[dict[str, Any]]:
    document = {
        "task": name,
        "shots": shots,
        "doc": sample["doc_id"],
        "doc_hash": sample["doc_hash"],
        "prompt_hash": sample["prompt_hash"],
        "gold": _gold(task, sample),
        "correct": _correct(sample),
    }
    return [
        {**document, "choice": choice, **_answer(answer)}
        for choice, answer in enumerate(sample["filtered_resps"])
    ]


def _answer(answer: Any) -> dict[str, Any]:
    if isinstance(answer, tuple | list) and len(answer) == 2 and isinstance(answer[0], float):
        return {"loglikelihood": answer[0], "greedy": answer[1], "response": None}
    if isinstance(answer, float):
        return {"loglikelihood": answer, "greedy": None, "response": None}
    return {"loglikelihood": None, "greedy": None, "response": str(answer)}


def _gold(task: StockTask, sample: Sample) -> int | None:
    """Return the index of the right choice; with several inputs the text carries it."""
    gold = task.doc_to_text(sample["doc"]) if task.multiple_input else sample["target"]
    if isinstance(gold, str) and task.config.doc_to_choice is not None:
        choices = task.doc_to_choice(sample["doc"])
        return choices.index(gold) if gold in choices else None
    return gold if isinstance(gold, int) else None


def _correct(sample: Sample) -> bool | None:
    for metric in ("acc", *sample["metrics"]):
        if sample.get(metric) in (0, 1):
            return bool(sample[metric])
    return None


def _ties(samples: Sequence[Sample], task: StockTask) -> int:
    """Return how many documents have more than one best choice: the first of them is taken."""
    if task.OUTPUT_TYPE != "multiple_choice":
        return 0
    tied = 0
    for sample in samples:
        values = [answer[0] for answer in sample["filtered_resps"]]
        tied += values.count(max(values)) > 1
    return tied
