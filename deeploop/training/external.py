"""A checkpoint from elsewhere in place of a training: taken as it is, validated, marked.

The folder holds what our own trainings put out: `model.safetensors` and `model.json`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from deeploop.errors import UserError
from deeploop.nn.config import GPTConfig
from deeploop.nn.weights import load_weights
from deeploop.training.checkpoint import differing
from deeploop.training.config import Execution, Training
from deeploop.training.language_model import LanguageModelTask
from deeploop.training.language_model_metrics import unigram_floor
from deeploop.training.world import joined


def adopt_checkpoint(
    params: Mapping[str, Any],
    files: tuple[Path, ...],
    tokens_dir: Path,
    folder: Path,
    execution: Mapping[str, Any],
) -> None:
    """Write a training's outputs from a finished model.

    Args:
        params: `model` (a `GPTConfig`, which the checkpoint must be of) and `training`, whose
            validation tokens the loss is measured on.
        files: the checkpoint's `model.safetensors` and `model.json`.
        tokens_dir: outputs of the tokenize stage.
        folder: where outputs go.
        execution: an `Execution`.

    Raises:
        UserError: the checkpoint is of another configuration, or not whole.
    """
    weights, description = files
    config = GPTConfig.model_validate(params["model"])
    training = Training.model_validate(params["training"])
    _require_same(description, params["model"])
    with joined(Execution.model_validate(execution)) as world:
        task = LanguageModelTask(config, training, tokens_dir, world, Execution(**execution))
        load_weights(task.module, weights)
        loss = task.validate()["loss"]
        floor = unigram_floor(task.train_shards, task.validation, config.backbone.vocab_size)
    found = _metrics(loss, floor, training)
    found["parameters"] = sum(parameter.numel() for parameter in task.module.parameters())
    for path in files:
        shutil.copyfile(path, folder / path.name)
    validations = [{"step": training.steps, "loss": loss}]
    history = {"step": [], "loss": [], "validations": validations}
    _write(folder / "metrics.json", found)
    _write(folder / "history.json", history)


def _require_same(description: Path, model: Mapping[str, Any]) -> None:
    try:
        theirs = json.loads(description.read_text(encoding="utf-8"))["config"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{description} does not describe a looped GPT: {error}") from error
    other = list(differing(model, theirs, "model."))
    if other:
        raise UserError(f"{description}: another configuration: {'; '.join(other[:3])}")


def _metrics(loss: float, floor: float, training: Training) -> dict[str, Any]:
    finite = bool(torch.isfinite(torch.tensor(loss)))
    outcome = "trained" if finite and loss < floor - training.floor_margin else "floor"
    return {
        "validation_loss": loss if finite else None,
        "validation_step": training.steps,
        "validation_loss_source": "external",
        "final_validation_loss": loss if finite else None,
        "final_validation_step": training.steps,
        "first_train_loss": None,
        "train_loss_last": None,
        "unigram_floor": floor,
        "outcome": outcome if finite else "diverged",
        "steps": 0,
        "tokens": 0,
    }


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, sort_keys=True, indent=1, allow_nan=False) + "\n")
