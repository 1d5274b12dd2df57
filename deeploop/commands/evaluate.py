"""Evaluate model folders on lm-evaluation-harness tasks, as the stage `evaluate_lm` does.

    deeploop evaluate MODEL_DIR --samples --out results
    deeploop evaluate MODEL_DIR --tasks piqa,sciq --shots 0,1 --mirror DIR --out results

Writes metrics.json and samples.parquet into --out, into a folder a model when there are several.
Killed, the same command goes on from the finished tasks.
"""

from __future__ import annotations

import argparse
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deeploop.errors import UserError
from deeploop.evaluation.config import PAPER_TASKS

HELP = "evaluate model folders on lm-evaluation-harness tasks"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("models", metavar="MODEL_DIR", type=Path, nargs="+", help="holds model.safetensors")
    add("--out", metavar="DIR", type=Path, required=True, help="where the results go")
    add("--tasks", default="all", help="all (the paper's eight), or names joined by commas")
    add("--shots", default="0,1", help="few-shot examples, joined by commas (0,1)")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--mirror", metavar="DIR", type=Path, help="<task>/<split>.parquet, .jsonl")
    source.add_argument("--samples", action="store_true", help="the project's own questions")
    source.add_argument("--hub", action="store_true", help="fetch the official data into DIR/data")
    add("--limit", type=int, help="only so many documents of each task")
    add("--precision", choices=("fp32", "bf16"), help="bf16 on a GPU and fp32 on a CPU by default")
    add("--batch-tokens", type=int, default=16384, help="padded tokens a forward pass (16384)")
    add("--processes", type=int, default=1, help="processes (GPUs) that share the work (1)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where the model runs")
    add("--threads", type=int, default=1, help="CPU threads a process (1)")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from pydantic import ValidationError

    from deeploop.evaluation.evaluate import evaluate

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        conditions = _conditions(args)
    except (ValidationError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise UserError(f"the options do not make an evaluation: {reason}") from error
    subjects = _subjects(args.models, args.out)
    for subject, metrics in zip(subjects, evaluate(subjects, conditions), strict=True):
        print(f"{subject.model}\n{as_text(metrics)}\n{subject.folder / 'metrics.json'}")
        shutil.rmtree(subject.work)
    return 0


def as_text(metrics: Mapping[str, Any]) -> str:
    """Return accuracies in percent (or another metric), a line a task, a column a shot count."""
    shots = list(metrics["shots"])
    lines = [f"{'':16}" + "".join(f"{count + '-shot':>18}" for count in shots)]
    for task in metrics["shots"][shots[0]]:
        found = (metrics["shots"][count][task] for count in shots)
        lines.append(f"{task:16}" + "".join(f"{_shown(summary):>18}" for summary in found))
    means = (metrics["average"][count] for count in shots)
    lines.append(f"{'average':16}" + "".join(f"{_percent(mean):>18}" for mean in means))
    return "\n".join((*lines, f"source: {metrics['source']}, {metrics['precision']}"))


def _shown(summary: Mapping[str, Any]) -> str:
    if "acc" not in summary:
        return f"{summary['metric']} {summary['value']:.4g}"
    return f"{_percent(summary['acc'])} ± {_percent(summary['stderr'])}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def _conditions(args: argparse.Namespace) -> Any:
    import torch

    from deeploop.evaluation.config import Evaluation, EvaluationExecution
    from deeploop.evaluation.evaluate import Conditions
    from deeploop.evaluation.hub import fetch_all
    from deeploop.evaluation.sources import SAMPLES, task_folders

    on_gpu = args.device == "cuda" or (args.device == "auto" and torch.cuda.is_available())
    settings = Evaluation(
        tasks=PAPER_TASKS if args.tasks == "all" else tuple(args.tasks.split(",")),
        shots=tuple(int(count) for count in args.shots.split(",")),
        source="hub" if args.hub else "samples" if args.samples else "mirror",
        mirror=str(args.mirror) if args.mirror else None,
        limit=args.limit,
        batch_tokens=args.batch_tokens,
        precision=args.precision or ("bf16" if on_gpu else "fp32"),
    )
    execution = EvaluationExecution(
        processes=args.processes, device=args.device, threads=args.threads
    )
    mirror = args.mirror or (args.out / "data" if args.hub else SAMPLES)
    if args.hub:
        fetch_all(settings.tasks, mirror)
    return Conditions(settings, task_folders(mirror, settings.tasks), execution)


def _subjects(models: list[Path], out: Path) -> list[Any]:
    from deeploop.evaluation.evaluate import Subject

    if len({model.resolve().name for model in models}) < len(models):
        raise UserError("two model folders have one name, which is where their results go")
    folders = [out] if len(models) == 1 else [out / model.resolve().name for model in models]
    return [
        Subject(model, folder, folder / "unfinished")
        for model, folder in zip(models, folders, strict=True)
    ]
