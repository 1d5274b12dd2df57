"""A training in a process of its own, stopped as a job is: by signals that set a flag."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import torch

from deeploop.errors import EXIT_INTERRUPTED, Interrupted
from deeploop.training.language_model import train_language_model


def train_until_signalled(
    wanted: dict[str, Any], tokens: Path, folder: Path, work: Path, telemetry: Path
) -> None:
    """Train with a checkpoint after every step; exit 75 when a signal came."""
    torch.set_num_threads(1)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, _: asked.append(signum))
    execution = {"checkpoint_minutes": 1e-9, "log_every_steps": 1}
    try:
        train_language_model(
            wanted, tokens, folder, work, execution, telemetry, lambda: bool(asked)
        )
    except Interrupted:
        sys.exit(EXIT_INTERRUPTED)
