"""Rates and times of a training as JSON lines: for people and dashboards, never an output."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import torch

from deeploop.training.task import Task
from deeploop.training.world import World


class Telemetry:
    """Appends a line now and then; only the first process writes."""

    def __init__(self, path: Path, task: Task, world: World) -> None:
        self.task, self.world = task, world
        self.file: TextIO | None = path.open("a") if world.is_first else None
        self.last_time, self.last_step = time.monotonic(), -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.file is not None:
            self.file.close()

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Append a line with the step's values, the rate since the last line and the memory."""
        if self.file is None:
            return
        line = {"time": time.time(), "step": step, "steps": self.task.steps, **values}
        line["memory_gb"] = self._memory_gb()
        if self.last_step >= 0:
            seconds = time.monotonic() - self.last_time
            steps_per_second = (step - self.last_step) / max(seconds, 1e-9)
            rate = steps_per_second * self.task.units_per_step
            line[f"{self.task.unit}_per_second"] = rate
            line["flops_per_second"] = steps_per_second * self.task.flops_per_step
        self.last_time, self.last_step = time.monotonic(), step
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def _memory_gb(self) -> float:
        if self.world.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.world.device) / 1e9
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
