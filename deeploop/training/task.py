"""What the training loop asks of a thing that can be trained: the looped GPT, or HRM.

The loop (`deeploop.training.loop`) owns steps, processes, accumulation, clipping, learning rates,
checkpoints, signals, history and telemetry. A task owns its model, its data and its loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer


@dataclass(frozen=True)
class Rows:
    """Rows [start, stop) of the global batch of one step: what a device computes at once.

    Over a run, a process always gets the same contiguous share of the rows, in order, so a task
    may keep state per row (HRM's carry).
    """

    step: int
    """Updates made so far: 0 for the first step."""
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Share:
    """What some rows contribute to a step: shares of all rows of all processes add up to it."""

    loss: Tensor
    """Scalar to differentiate: the rows' loss summed, divided by the rows of the *global* batch."""
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """Detached scalars that likewise add up; they become columns of the history."""


class Task(Protocol):
    """A model in training. Its draws are counter-based on (seed, step, global row)."""

    identity: Mapping[str, Any]
    """Everything that bears on the result, as JSON; a checkpoint of another identity is refused."""
    steps: int
    """Updates in all."""
    rows: int
    """Rows of the global batch, over all processes."""
    units_per_step: int
    """Progress of a step in `unit`s."""
    unit: str
    """What throughput counts: `tokens`, `puzzles`."""
    flops_per_step: float
    """Model FLOPs of a step, forward and backward, loops counted; 0 when unknown."""
    module: nn.Module
    """Raw, on its device; its parameters that require gradients are averaged over processes."""
    optimizers: Sequence[Optimizer]
    """Each parameter group holds its peak rate as `peak_lr` (see `deeploop.training.optim`)."""
    grad_clip: float
    """Limit on the global norm of the mean gradient; 0 does not clip."""
    snapshot_steps: Sequence[int]
    """Numbers of updates after which `weights()` is kept as an output."""

    def learning_rate_factor(self, step: int) -> float:
        """Return the fraction of its peak at which update `step` (from 0) is made."""

    def load(self, rows: Rows) -> Any:
        """Return what `loss` needs of the data, on the CPU.

        Called ahead of the step, in a thread of its own: it must not touch what a step changes.
        """

    def loss(self, model: nn.Module, rows: Rows, loaded: Any) -> Share:
        """Return the share of rows that `load` has loaded.

        `model` is `module`, or its wrapper that synchronises gradients.

        With several processes exactly one forward of `model` may carry gradients in a call;
        forwards without gradients go through `module`.
        """

    def validates_after(self, steps: int) -> bool:
        """Say whether a validation is due once so many updates are made."""

    def validate(self) -> Mapping[str, float]:
        """Return validation numbers; called on all processes, which share the work."""

    def weights(self) -> Mapping[str, Tensor]:
        """Return what a snapshot holds, by name."""

    def extra_state(self) -> Mapping[str, Tensor]:
        """Return what a resume needs beside module and optimizers, e.g. HRM's carry of all rows.

        Called on all processes (so that it may gather); the first process's answer is saved.
        """

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `extra_state` returned, on every process."""
