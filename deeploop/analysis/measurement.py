"""Alignment along a training: at the start, at every snapshot, and at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deeploop.analysis.alignment import Settings, measure
from deeploop.analysis.subjects import Subject, hrm, looped_gpt
from deeploop.arc.rows import ArcRows
from deeploop.errors import BuildError, Interrupted
from deeploop.nn.config import GPTConfig
from deeploop.nn.gpt import build
from deeploop.nn.hrm import HRM, initialise
from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.hrm_halting import Exploration
from deeploop.nn.weights import load_weights
from deeploop.text.order import ValidationWindows
from deeploop.text.shards import TokenShards
from deeploop.training.hrm_task import to_batch

OUTPUT = "alignment.json"
AS_MEASURED = {"gradient": "last_cycle", "precision": "fp32"}
"""HRM is measured on all gradient-visible visits of the paper (its M_g), in fp32."""


@dataclass(frozen=True)
class Measured:
    """A model to fill with weights, and the batches it is measured on."""

    subject: Subject
    batches: tuple[Any, ...]


def measure_training(
    params: Mapping[str, Any],
    training: Path,
    data: Path,
    folder: Path,
    work: Path,
    execution: Mapping[str, Any],
    stop: Callable[[], bool],
) -> None:
    """Measure one training and write `alignment.json`.

    Args:
        params: `kind` (`train_lm` or `train_hrm`), `seed` of the initial weights (None where they
            are not our own), `measurement`.
        training: outputs of the training.
        data: outputs of `tokenize` or `build_arc`.
        folder: where the output goes.
        work: finished steps; outlives interruptions.
        execution: `device` and `threads`.
        stop: polled between steps.

    Raises:
        Interrupted: stopped in order; the same call resumes.
        UserError: the model has no visits to align, or the data are too few.
        BuildError: the training's outputs cannot be read.
    """
    torch.set_num_threads(execution["threads"])
    numbers = params["measurement"]
    described, metrics = (_read(training / name) for name in ("model.json", "metrics.json"))
    opened = _language_model if params["kind"] == "train_lm" else _hrm
    measured = opened(described["config"], params["seed"], data, numbers, _device(execution))
    settings = Settings(numbers["probes"], numbers["resamples"], numbers["seed"])
    points = []
    for step, weights in _weights(training, metrics["steps"], params["seed"] is not None):
        if stop():
            raise Interrupted("alignment")
        points.append({"step": step, **_point(measured, weights, settings, work, step)})
    found = {"outcome": metrics["outcome"], "points": points}
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / OUTPUT, found)


def _point(
    measured: Measured, weights: Path | None, settings: Settings, work: Path, step: int
) -> Any:
    kept = work / f"step-{step}.json"
    if not kept.exists():
        if weights is not None:
            load_weights(measured.subject.model, weights)
        work.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(".tmp")
        _write(partial, measure(measured.subject, measured.batches, settings))
        partial.replace(kept)
    return _read(kept)


def _weights(training: Path, last: int, own_start: bool) -> Iterator[tuple[int, Path | None]]:
    """Yield steps with their weights' files in order; None for the model's initial values."""
    if own_start:
        yield 0, None
    kept = {int(path.stem.removeprefix("step-")): path for path in training.glob("snapshots/*")}
    yield from sorted(kept.items() - {(last, kept.get(last))})
    yield last, training / "model.safetensors"


def _language_model(
    config: Any, seed: int | None, data: Path, numbers: Mapping[str, int], device: torch.device
) -> Measured:
    """Return the looped GPT on validation windows; batch b is its own `rows` windows."""
    model = build(GPTConfig.model_validate(config), seed or 0, device)
    length, rows = model.config.backbone.context_length, numbers["rows"]
    tokens = numbers["batches"] * rows * length
    windows = ValidationWindows(TokenShards(data, "validation"), length, tokens)
    batches = []
    for start in range(0, numbers["batches"] * rows, rows):
        drawn = windows.batch(range(start, start + rows)).astype(np.int64)
        moved = torch.from_numpy(drawn).to(device)
        batches.append((moved[:, :-1], moved[:, 1:]))
    return Measured(looped_gpt(model), tuple(batches))


def _hrm(
    config: Any, seed: int | None, data: Path, numbers: Mapping[str, int], device: torch.device
) -> Measured:
    """Return HRM on training rows that are spread evenly; none of them explores."""
    model = HRM(HRMConfig.model_validate(dict(config) | AS_MEASURED))
    initialise(model, seed or 0)
    model.to(device)
    rows, batches = ArcRows(data, "train"), numbers["batches"]
    spread = np.linspace(0, rows.count - 1, batches * numbers["rows"]).round().astype(np.int64)
    count = numbers["rows"]
    draws = Exploration(torch.ones(count, device=device), torch.full((count,), 2, device=device))
    # Interleaved, so that a batch is not of one puzzle's augmentations.
    drawn = tuple(to_batch(rows.render(spread[i::batches]), device) for i in range(batches))
    return Measured(hrm(model, draws), drawn)


def _device(execution: Mapping[str, Any]) -> torch.device:
    if execution["device"] == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(execution["device"])


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BuildError(f"{path}: {error}; rebuild its run") from error


def _write(path: Path, content: Any) -> None:
    text = json.dumps(content, sort_keys=True, indent=1, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
