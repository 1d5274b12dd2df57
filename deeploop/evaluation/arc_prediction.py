"""A model's predictions for all rows of an ARC test split: sharded, resumable, without logits.

Rows are cut into parts. Each process works on every n-th part and keeps a finished part in `work`;
what is there when an interrupted run starts again is not computed anew. Of a row only its most
likely tokens and one logit are kept, so memory does not grow with the rows in flight.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor

from deeploop.arc.predictions import write_predictions
from deeploop.arc.rows import ArcRows
from deeploop.errors import BuildError, Interrupted
from deeploop.evaluation.arc_models import ArcModel, Kind, open_arc_model
from deeploop.progress import Progress
from deeploop.training.config import Execution
from deeploop.training.launch import in_processes, work_off
from deeploop.training.puzzle_order import PuzzleRows
from deeploop.training.world import World, joined

PREDICTIONS_FILE = "predictions.parquet"
PART_ROWS = 4096
"""Rows of one part: what an interruption can cost a process."""


class Answers:
    """Room for the answers to a number of rows, allocated once: nothing small is kept a batch."""

    def __init__(self, rows: int, tokens: int) -> None:
        self.tokens = np.empty((rows, tokens), np.uint8)
        """Most likely token of each cell."""
        self.halting = np.empty(rows, np.float32)
        """Logits of being right: HRM's of halting."""

    def take(self, start: int, tokens: Tensor, halting: Tensor) -> int:
        """Copy the answers to the rows from `start` on; return how many there was room for."""
        count = min(len(tokens), len(self.tokens) - start)
        self.tokens[start : start + count] = tokens[:count].cpu().numpy()
        self.halting[start : start + count] = halting[:count].cpu().numpy()
        return count


@in_processes
def predict_arc(
    kind: Kind,
    model_folder: Path,
    data_folder: Path,
    folder: Path,
    work: Path,
    execution: Mapping[str, Any],
    telemetry: Path,
    stop: Callable[[], bool],
    label: str = "predict_arc",
) -> None:
    """Predict every row of the test split and write `predictions.parquet`.

    Args:
        kind: which training the model is of.
        model_folder: outputs of a training, or of `deeploop hrm import`.
        data_folder: outputs of `build_arc`.
        folder: where the predictions go.
        work: finished parts; outlives interruptions.
        execution: processes, batch, device.
        telemetry: JSON lines of rates, appended.
        stop: polled after every batch.
        label: the run's name in progress and log.

    Raises:
        Interrupted: stopped in order; the same call goes on.
        UserError: model and data set do not fit together.
    """
    data = ArcRows(data_folder, "test")
    settings = dict(execution)
    batch_rows = int(settings.pop("batch_rows", 256))
    run = Execution.model_validate(settings)
    with joined(run) as world:
        model = open_arc_model(kind, model_folder, data, world.device, run.compile)
        finished = predict_parts(model, data, work, world, batch_rows, telemetry, stop, label)
        unfinished = world.sum(torch.full((1,), float(not finished), device=world.device))
        if unfinished.item():
            raise Interrupted(f"{label}: finished parts are kept, rerun to go on")
        with world.together():
            if world.is_first:
                found = collected(data, work)
                write_predictions(folder / PREDICTIONS_FILE, data, found.tokens, found.halting)


def predict_parts(
    model: ArcModel,
    data: ArcRows,
    work: Path,
    world: World,
    batch_rows: int,
    telemetry: Path,
    stop: Callable[[], bool],
    label: str,
) -> bool:
    """Predict this process's share of the parts that are not in `work` yet.

    Returns whether it came to the end. Only the first process is asked to stop; it tells the
    others by a file, because they are not at the same batch.
    """
    told = work / "stop"
    if world.is_first:
        told.unlink(missing_ok=True)
    world.barrier()
    batch_rows = min(batch_rows, data.count)
    mine = range(0, data.count, PART_ROWS)[world.rank :: world.size]
    missing = [start for start in mine if _read_part(work, start, data) is None]
    total = sum(len(_part(start, data)) for start in mine)
    done = total - sum(len(_part(start, data)) for start in missing)
    with Progress(label, total, "puzzles", done, enabled=world.is_first) as progress:
        for start in missing:
            rows = _part(start, data)
            answers = Answers(len(rows), data.tokens)
            for count in answered(model, data, rows, batch_rows, answers):
                progress.advance(count)
                if stop():
                    told.touch()
                if told.exists():
                    return False
            _write_part(work, start, answers)
            if world.is_first:
                _write_rate(telemetry, progress)
    return True


def _write_rate(telemetry: Path, progress: Progress) -> None:
    line = {"time": time.time(), "rows": progress.done, "rows_per_second": progress.rate}
    with telemetry.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def answered(
    model: ArcModel,
    data: PuzzleRows,
    rows: range,
    batch_rows: int,
    answers: Answers,
) -> Iterator[int]:
    """Answer `rows` into `answers`, a batch at a time, and yield how many each batch answered.

    A batch's answers are fetched once the next batch is under way, so a GPU never waits for the
    host. Every batch has `batch_rows` rows (the last is filled up): one shape, compiled once.
    """
    flying: tuple[int, Tensor, Tensor] | None = None
    for start in range(0, len(rows), batch_rows):
        chosen = np.arange(rows.start + start, rows.start + start + batch_rows)
        tokens, halting = model.answer(data.render(chosen.clip(max=data.count - 1)))
        if flying is not None:
            yield answers.take(*flying)
        flying = start, tokens, halting
    if flying is not None:
        yield answers.take(*flying)


def collected(data: ArcRows, work: Path) -> Answers:
    """Return the answers of all parts joined.

    Raises:
        BuildError: when a part is missing or damaged.
    """
    answers = Answers(data.count, data.tokens)
    for start in range(0, data.count, PART_ROWS):
        part = _read_part(work, start, data)
        if part is None:
            raise BuildError(f"part {start} of the predictions in {work} is missing or damaged")
        here = slice(start, start + PART_ROWS)
        answers.tokens[here], answers.halting[here] = part
    return answers


def _part(start: int, data: ArcRows) -> range:
    return range(start, min(start + PART_ROWS, data.count))


def _part_file(work: Path, start: int) -> Path:
    return work / f"rows-{start:09d}.safetensors"


def _write_part(work: Path, start: int, answers: Answers) -> None:
    partial = _part_file(work, start).with_suffix(".partial")
    save_file({"tokens": answers.tokens, "halting": answers.halting}, partial)
    partial.replace(_part_file(work, start))


def _read_part(work: Path, start: int, data: ArcRows) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a finished part, or None when it is not there or not whole."""
    try:
        part = load_file(_part_file(work, start))
        tokens, halting = part["tokens"], part["halting"]
    except (OSError, SafetensorError, KeyError):
        return None
    whole = tokens.shape == (len(_part(start, data)), data.tokens)
    return (tokens, halting) if whole and len(halting) == len(tokens) else None


if __name__ == "__main__":
    work_off(predict_arc)
