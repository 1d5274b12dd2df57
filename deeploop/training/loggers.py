"""Dashboards that a training reports to when `execution.loggers` names them: optional extras.

All write below the run's folder and stay offline; WANDB_MODE=online is the user's own word.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Protocol

from deeploop.errors import UserError
from deeploop.training.config import LoggerName

PROJECT = "deeploop"


class MetricLogger(Protocol):
    """A place that metrics go to."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Report numbers of one step."""

    def close(self) -> None:
        """Write what is held back."""


class TensorBoard:
    """Event files for `tensorboard --logdir`."""

    def __init__(self, folder: Path, run: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `MetricLogger`."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """See `MetricLogger`."""
        self.writer.close()


class WeightsAndBiases:
    """A run that `wandb sync` uploads; each attempt at a training is a folder with the run's id."""

    def __init__(self, folder: Path, run: str) -> None:
        import wandb

        mode = os.environ.get("WANDB_MODE", "offline")
        identifier = run.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        resume = None if mode == "offline" else "allow"  # which it warns of: there is no server
        self.run = wandb.init(
            project=PROJECT, name=run, id=identifier, dir=folder, mode=mode, resume=resume
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `MetricLogger`."""
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        """See `MetricLogger`."""
        self.run.finish()


class Trackio:
    """A local database for `trackio show`; a resumed training goes on in its run.

    Trackio talks on standard output, which is the command's own.
    """

    def __init__(self, folder: Path, run: str) -> None:
        os.environ.setdefault("TRACKIO_DIR", str(folder))  # read when it is imported
        import trackio

        self.finish = trackio.finish
        name = run.replace("/", "-")
        with redirect_stdout(sys.stderr):
            self.run = trackio.init(
                PROJECT, name, resume="allow", auto_log_gpu=False, auto_log_cpu=False
            )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `MetricLogger`."""
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        """See `MetricLogger`."""
        with redirect_stdout(sys.stderr):
            self.finish()


LOGGERS: Mapping[LoggerName, Callable[[Path, str], MetricLogger]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "trackio": Trackio,
}


def open_loggers(names: Sequence[LoggerName], folder: Path, run: str) -> list[MetricLogger]:
    """Open loggers, each with a folder of its name below `folder`.

    Raises:
        UserError: a package is not installed.
    """
    opened: list[MetricLogger] = []
    for name in names:
        try:
            opened.append(LOGGERS[name](folder / name, run))
        except ImportError as error:
            raise UserError(
                f"execution.loggers names {name}, which is not installed ({error}): "
                f"`pip install {name}`, or take it out"
            ) from error
    return opened
