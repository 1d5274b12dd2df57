"""HRM's predictions for all rows of a test split: sharded, resumable, without logits.

Rows are cut into parts. Each process works on every n-th part and keeps a finished part in `work`;
what is there when an interrupted run starts again is not computed anew. Of a row only its most
likely tokens and its halting logit are kept, so memory does not grow with the rows in flight.
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
from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.nn.hrm import HRM
from deeploop.nn.hrm_halting import Batch, think_fully
from deeploop.nn.hrm_weights import OTHER_BUILD, load_model
from deeploop.progress import Progress
from deeploop.training.config import Execution
from deeploop.training.hrm_task import to_batch
from deeploop.training.world import World, joined

PREDICTIONS_FILE = "predictions.parquet"
PART_ROWS = 4096
"""Rows of one part: what an interruption can cost a process."""

Answer = tuple[np.ndarray, np.ndarray]
"""Most likely tokens, uint8 [rows, tokens], and halting logits, float32 [rows]."""


def predict_arc(
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
        model = load_model(model_folder, world.device)
        check_fit(model, data, model_folder)
        model.compile_as(run.compile)
        predict_parts(model, data, work, world, batch_rows, telemetry, stop, label)
        world.barrier()
        if world.is_first:
            write_predictions(folder / PREDICTIONS_FILE, data, *collected(data, work))
        world.barrier()


def check_fit(model: HRM, data: ArcRows, source: Path) -> None:
    """See that a model can read a data set's rows.

    Raises:
        UserError: naming what differs; for identifiers with what it may come from.
    """
    config = model.config
    for name, ours, theirs in (
        ("tokens a row", config.sequence_length, data.tokens),
        ("token values", config.vocab_size, data.vocabulary),
    ):
        if ours != theirs:
            raise UserError(f"{source}: the model has {ours:,} {name}, the data set {theirs:,}")
    if config.puzzle_embedding_size and config.identifiers != data.identifiers:
        raise UserError(
            f"{source}: the model has {config.identifiers:,} puzzle identifiers, the data set "
            f"{data.identifiers:,}: it was {OTHER_BUILD}"
        )


def predict_parts(
    model: HRM,
    data: ArcRows,
    work: Path,
    world: World,
    batch_rows: int,
    telemetry: Path,
    stop: Callable[[], bool],
    label: str,
) -> None:
    """Predict this process's share of the parts that are not in `work` yet.

    Raises:
        Interrupted: asked to stop; finished parts stay.
    """
    batch_rows = min(batch_rows, data.count)
    mine = range(0, data.count, PART_ROWS)[world.rank :: world.size]
    missing = [start for start in mine if _read_part(work, start, data) is None]
    done = sum(len(_part(start, data)) for start in mine if start not in missing)
    total = sum(len(_part(start, data)) for start in mine)
    with Progress(label, total, "puzzles", done, enabled=world.is_first) as progress:
        for start in missing:
            answers: list[Answer] = []
            for answer in answered(model, data, _part(start, data), batch_rows, world.device):
                answers.append(answer)
                progress.advance(len(answer[0]))
                if stop():
                    raise Interrupted(f"{label}: {progress.done} of {total} rows, rerun to go on")
            _write_part(work, start, answers)
            if world.is_first:
                line = {
                    "time": time.time(),
                    "rows": progress.done,
                    "rows_per_second": progress.rate,
                }
                with telemetry.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


def answered(
    model: HRM, data: ArcRows, rows: range, batch_rows: int, device: torch.device
) -> Iterator[Answer]:
    """Yield the answers for `rows`, a batch at a time, in order.

    A batch's answers are fetched once the next batch is under way, so a GPU never waits for the
    host. Every batch has `batch_rows` rows (the last is filled up): one shape, compiled once.
    """
    flying: tuple[Tensor, Tensor, int] | None = None
    for start in range(rows.start, rows.stop, batch_rows):
        chosen = np.arange(start, start + batch_rows).clip(max=data.count - 1)
        real = min(batch_rows, rows.stop - start)
        preds, halting = answer(model, to_batch(data, chosen, device))
        if flying is not None:
            yield _fetched(*flying)
        flying = preds, halting, real
    if flying is not None:
        yield _fetched(*flying)


def answer(model: HRM, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the most likely tokens, uint8 [rows, tokens], and the halting logits, [rows]."""
    with torch.inference_mode():
        thought = think_fully(model, batch)
        return thought.logits.argmax(-1).to(torch.uint8), thought.q_halt.float()


def collected(data: ArcRows, work: Path) -> Answer:
    """Return all parts joined: tokens [N, T] and halting logits [N]."""
    tokens = np.empty((data.count, data.tokens), np.uint8)
    halting = np.empty(data.count, np.float32)
    for start in range(0, data.count, PART_ROWS):
        part = _read_part(work, start, data)
        if part is None:
            raise BuildError(f"part {start} of the predictions in {work} is missing or damaged")
        here = slice(start, start + PART_ROWS)
        tokens[here], halting[here] = part
    return tokens, halting


def _fetched(preds: Tensor, halting: Tensor, real: int) -> Answer:
    return preds[:real].cpu().numpy(), halting[:real].cpu().numpy()


def _part(start: int, data: ArcRows) -> range:
    return range(start, min(start + PART_ROWS, data.count))


def _part_file(work: Path, start: int) -> Path:
    return work / f"rows-{start:09d}.safetensors"


def _write_part(work: Path, start: int, answers: list[Answer]) -> None:
    tokens, halting = (np.concatenate(parts) for parts in zip(*answers, strict=True))
    partial = _part_file(work, start).with_suffix(".partial")
    save_file({"tokens": tokens, "halting": halting}, partial)
    partial.replace(_part_file(work, start))


def _read_part(work: Path, start: int, data: ArcRows) -> Answer | None:
    """Return a finished part, or None when it is not there or not whole."""
    try:
        part = load_file(_part_file(work, start))
        tokens, halting = part["tokens"], part["halting"]
    except (OSError, SafetensorError, KeyError):
        return None
    whole = tokens.shape == (len(_part(start, data)), data.tokens)
    return (tokens, halting) if whole and len(halting) == len(tokens) else None
