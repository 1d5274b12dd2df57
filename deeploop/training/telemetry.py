"""Rates and times of a training, for people and dashboards: JSON lines, never an output."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import torch

from deeploop.training.config import LoggerName
from deeploop.training.loggers import MetricLogger, open_loggers
from deeploop.training.peak import device_peak
from deeploop.training.task import Task
from deeploop.training.world import World


class Telemetry:
    """Appends a line now and then; only the first process writes."""

    def __init__(
        self,
        path: Path,
        task: Task,
        world: World,
        loggers: Sequence[LoggerName] = (),
        run: str = "training",
    ) -> None:
        """Open the file, and the loggers beside it.

        Raises:
            UserError: a logger is not installed.
        """
        self.task, self.world = task, world
        self.peak = device_peak(world.device)
        self.file: TextIO | None = None
        self.loggers: list[MetricLogger] = []
        if world.is_first:
            self.loggers = open_loggers(loggers, path.parent, run)
            self.file = path.open("a")
        self.last_time, self.last_step = time.monotonic(), -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for logger in self.loggers:
            logger.close()
        if self.file is not None:
            self.file.close()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Report a step's values, the rates since the last report and the memory."""
        if self.file is not None:
            self._report(step, {**values, **self._rates(step), "memory_gb": self._memory_gb()})

    def write_validation(self, step: int, values: Mapping[str, float]) -> None:
        """Report a validation after `step` updates."""
        if self.file is not None:
            self._report(step, {f"validation_{name}": value for name, value in values.items()})

    def _report(self, step: int, values: Mapping[str, float]) -> None:
        assert self.file is not None
        position = {"time": time.time(), "step": step, "steps": self.task.steps}
        line: dict[str, Any] = {**position, **values}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        for logger in self.loggers:
            logger.log(step, values)

    def _rates(self, step: int) -> dict[str, float]:
        now, since = time.monotonic(), step - self.last_step
        seconds = max(now - self.last_time, 1e-9)
        first = self.last_step < 0
        self.last_time, self.last_step = now, step
        if first:  # of what came before this process there is no telling
            return {}
        flops = since / seconds * self.task.flops_per_step
        rates = {
            f"{self.task.unit}_per_second": since / seconds * self.task.units_per_step,
            "flops_per_second": flops,
        }
        if self.peak is not None and flops:
            rates["mfu"] = flops / (self.peak * self.world.size)
        return rates

    def _memory_gb(self) -> float:
        if self.world.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.world.device) / 1e9
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
