"""What a language-model training is reported as: validation loss, outcome, unigram floor."""

from __future__ import annotations

from typing import Any

import numpy as np

from deeploop.text.order import ValidationWindows
from deeploop.text.shards import TokenShards
from deeploop.training.config import Training
from deeploop.training.history import History

LAST_STEPS = 50
"""Train losses averaged where a mean of the last is wanted (the paper's p-sweep)."""


def unigram_floor(train: TokenShards, validation: ValidationWindows, vocab_size: int) -> float:
    """Return the validation cross-entropy (nats) of a model that knows token frequencies only.

    Frequencies are the training tokens', plus one each, so that an unseen token costs something
    finite; they are scored on the targets of the fixed validation windows.

    Raises:
        UserError: a training token is not below `vocab_size`.
    """
    counts = train.counts(vocab_size) + 1
    surprise = np.log(counts.sum()) - np.log(counts)
    targets = validation.batch(range(len(validation)))[:, 1:]
    return float(surprise[targets].mean())


def metrics(history: History, training: Training, floor: float, diverged: bool) -> dict[str, Any]:
    """Return what tables read; None stands where there is no number."""
    last = history.mean_of_last("loss", LAST_STEPS) if len(history) else None
    final = history.validations[-1] if history.validations else {"loss": None, "step": None}
    return {
        **_reported(history, training, last),
        "final_validation_loss": final["loss"],
        "final_validation_step": final["step"],
        "first_train_loss": history.columns["loss"][0] if len(history) else None,
        "train_loss_last": last,
        "unigram_floor": floor,
        "outcome": _outcome(final["loss"], training, floor, diverged),
        "steps": len(history),
    }


def _outcome(final: float | None, training: Training, floor: float, diverged: bool) -> str:
    """Return `trained`, `floor` (never left token frequencies) or `diverged` (not finite)."""
    if diverged or final is None:
        return "diverged"
    return "trained" if final < floor - training.floor_margin else "floor"


def _reported(history: History, training: Training, last: float | None) -> dict[str, Any]:
    """Choose the loss to report: the last validation after warm-up, up to the reported step.

    Where there is none, the mean of the last train losses stands in and is marked as such (the
    paper's rule for its p-sweep, SPEC section 3).
    """
    limit = training.report_step or training.steps
    usable = [
        found
        for found in history.validations
        if training.recipe.warmup_steps <= found["step"] <= limit
    ]
    if usable:
        return _reported_as(usable[-1]["loss"], usable[-1]["step"], "validation")
    return _reported_as(last, len(history), f"train_last_{LAST_STEPS}")


def _reported_as(loss: float | None, step: float, source: str) -> dict[str, Any]:
    return {"validation_loss": loss, "validation_step": step, "validation_loss_source": source}
