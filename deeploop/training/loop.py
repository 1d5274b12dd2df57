"""The training loop, one for the looped GPT and HRM: steps until done, stopped or diverged.

Everything that can differ between two executions of one run (processes, micro-batches,
interruptions, intervals) is handled here, and none of it bears on the result beyond rounding.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from deeploop.errors import Interrupted, UserError
from deeploop.progress import Progress
from deeploop.training.checkpoint import Checkpoint, load_latest, save, write_tensors
from deeploop.training.config import Execution
from deeploop.training.history import History
from deeploop.training.optim import load_optimizer_tensors, optimizer_tensors, set_rates
from deeploop.training.prefetch import prefetch
from deeploop.training.task import Rows, Task
from deeploop.training.telemetry import Telemetry
from deeploop.training.world import World

log = logging.getLogger(__name__)


class Trainer:
    """Carries out the training of one task on this process."""

    def __init__(
        self,
        task: Task,
        world: World,
        execution: Execution,
        work: Path,
        label: str = "training",
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare to train; `work` keeps checkpoints and snapshots, `stop` is polled every step.

        Raises:
            UserError: when rows, processes and micro-batch do not fit together.
        """
        self.task, self.world, self.execution = task, world, execution
        self.work, self.label, self.stop = work, label, stop
        self.step = 0
        self.history = History()
        self.diverged = False
        self.micro_batches = _micro_batches(world.share(task.rows), execution.micro_batch)
        self.model: nn.Module = task.module
        self.started = self.last_saved = time.monotonic()

    def train(self, telemetry: Path) -> History:
        """Train to the end, from the newest checkpoint if there is one; return the history.

        `diverged` says afterwards whether a loss or gradient was not finite; that update was not
        applied, so the weights are the last finite ones.

        Raises:
            Interrupted: asked to stop, or out of budget; a checkpoint was saved first.
            BuildError: a checkpoint cannot be written, or none of those there can be used.
        """
        self._resume()
        if self.world.size > 1:
            self.model = DistributedDataParallel(
                self.task.module,
                forward_sync_buffers=False,
                gradient_as_bucket_view=True,
                # Else DDP packs gradients anew after its first step, in a resumed run a later one,
                # and where a gradient lies decides in which order processes are summed.
                find_unused_parameters=True,
            )
        with self.world.together():
            reported = Telemetry(
                telemetry, self.task, self.world, self.execution.loggers, self.label
            )
        with (
            self._progress() as progress,
            reported as lines,
            self._unwrapping(),
            closing(self.batches()) as batches,
        ):
            while self.step < self.task.steps:
                values, stopping, saving = self.update(batches)
                if self.diverged:
                    log.warning("step %d: not finite; the run ends here", self.step + 1)
                    break
                self.step += 1
                self.history.append(values)
                progress.advance(
                    self.task.units_per_step, step=f"{self.step}", loss=f"{values['loss']:.4f}"
                )
                if self.step % self.execution.log_every_steps == 0:
                    lines.write(self.step, values)
                self._keep_grid(lines)
                if stopping and self.step < self.task.steps:
                    self._save()
                    raise Interrupted(f"{self.label}: saved at step {self.step}, rerun to go on")
                if saving:
                    self._save()
        return self.history

    @contextmanager
    def _unwrapping(self) -> Iterator[None]:
        """Let go of DDP at the end, which else would hold the process group beyond its end."""
        try:
            yield
        finally:
            self.model = self.task.module

    def batches(self) -> Generator[Any, None, None]:
        """Yield what this process's micro-batches need from here to the end, loaded ahead."""
        ahead = (
            Rows(step, rows.start, rows.stop)
            for step in range(self.step, self.task.steps)
            for rows in self.micro_batches
        )
        return prefetch(self.task.load, ahead)

    def update(self, batches: Iterator[Any]) -> tuple[dict[str, float], bool, bool]:
        """Make one update, unless it is not finite.

        Args:
            batches: those of `batches`, of which it takes one for each micro-batch.

        Returns:
            The step's history values; whether to stop; whether to save.
        """
        factor = self.task.learning_rate_factor(self.step)
        set_rates(self.task.optimizers, factor)
        sums = self._accumulate(batches)
        device = sums["loss"].device
        flags = torch.tensor(self._wishes(), dtype=torch.float64, device=device)
        shared = self.world.sum(torch.cat((flags, torch.stack(list(sums.values())))))
        norm = self._clip().to(shared)
        stopping, saving, *values = torch.cat((shared, norm.view(1))).tolist()  # waits for device
        found = dict(zip([*sums, "grad_norm"], values, strict=True))
        self.diverged = not (math.isfinite(found["loss"]) and math.isfinite(found["grad_norm"]))
        if not self.diverged:
            for optimizer in self.task.optimizers:
                optimizer.step()
        for optimizer in self.task.optimizers:
            optimizer.zero_grad(set_to_none=True)
        found["learning_rate"] = self.task.optimizers[0].param_groups[0]["lr"]
        return found, stopping > 0, saving > 0

    def _accumulate(self, batches: Iterator[Any]) -> dict[str, Tensor]:
        """Add up gradients and metrics of this process's rows; gradients end averaged over all.

        DDP divides by the number of processes, but shares are of the global batch: multiply back.
        """
        sums: dict[str, Tensor] = {}
        for rows in self.micro_batches:
            last = rows is self.micro_batches[-1]
            with nullcontext() if last else _unsynchronised(self.model):
                here = Rows(self.step, rows.start, rows.stop)
                share = self.task.loss(self.model, here, next(batches))
                (share.loss * self.world.size).backward()
            for name, value in {"loss": share.loss.detach(), **share.metrics}.items():
                wide = value.to(torch.float64)
                sums[name] = sums[name] + wide if name in sums else wide
        return sums

    def _clip(self) -> Tensor:
        """Clip gradients in place and return their global norm before that."""
        parameters = [p for p in self.task.module.parameters() if p.grad is not None]
        limit = self.task.grad_clip or math.inf
        return nn.utils.clip_grad_norm_(parameters, limit)

    def _wishes(self) -> list[float]:
        """Return whether this process wants to stop, and to save, once the step is done."""
        now, minutes = time.monotonic(), self.execution.budget_minutes
        stopping = self.stop() or (minutes is not None and now - self.started >= 60 * minutes)
        due = now - self.last_saved >= 60 * self.execution.checkpoint_minutes
        return [float(stopping), float(due and self.world.is_first)]

    def _keep_grid(self, lines: Telemetry) -> None:
        """Validate and keep weights where the plan asks for it."""
        if self.task.validates_after(self.step):
            found = self.task.validate()
            self.history.validations.append({"step": self.step, **found})
            lines.write_validation(self.step, found)
            numbers = ", ".join(f"validation {name} {value:.4f}" for name, value in found.items())
            log.info("%s: step %d: %s", self.label, self.step, numbers)
        if self.step in self.task.snapshot_steps:
            with self.world.together():
                if self.world.is_first:
                    self._snapshot()

    def _snapshot(self) -> None:
        path = snapshot_path(self.work, self.step)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(path.with_suffix(".partial"), self.task.weights())
        path.with_suffix(".partial").replace(path)

    def _save(self) -> None:
        tensors = {
            **_named("module", self.task.module.state_dict()),
            **_named("optimizer", optimizer_tensors(self.task.optimizers)),
            **_named("extra", self.task.extra_state()),
            **_named("history", self.history.tensors()),
        }
        meta = {"validations": self.history.validations, "torch": torch.__version__}
        with self.world.together():
            if self.world.is_first:
                checkpoint = Checkpoint(self.step, self.task.identity, tensors, meta)
                path = save(self.work / "checkpoints", checkpoint)
                log.info("%s: saved %s", self.label, path)
        self.last_saved = time.monotonic()

    def _resume(self) -> None:
        found = load_latest(self.work / "checkpoints", self.task.identity)
        if found is None:
            return
        self.step = found.step
        self.task.module.load_state_dict(_under("module", found.tensors))
        load_optimizer_tensors(self.task.optimizers, _under("optimizer", found.tensors))
        self.task.load_extra_state(_under("extra", found.tensors))
        columns = _under("history", found.tensors)
        self.history = History.restored(columns, list(found.meta["validations"]))
        log.info("%s: resumed at step %d", self.label, self.step)

    def _progress(self) -> Progress:
        units = self.task.units_per_step
        return Progress(
            self.label,
            self.task.steps * units,
            self.task.unit,
            done=self.step * units,
            enabled=self.world.is_first,
        )


def snapshot_path(work: Path, step: int) -> Path:
    """Return where the weights after `step` updates are kept."""
    return work / "snapshots" / f"step-{step}.safetensors"


def _micro_batches(share: range, size: int | None) -> list[range]:
    """Cut a process's rows into equal micro-batches."""
    size = size or len(share)
    if len(share) % size:
        raise UserError(
            f"execution.micro_batch {size} does not divide the {len(share)} rows of a process: "
            "choose a divisor"
        )
    return [range(start, start + size) for start in range(share.start, share.stop, size)]


def _unsynchronised(model: nn.Module) -> AbstractContextManager[None]:
    """Return the context in which DDP leaves gradients local."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()


def _named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": value.contiguous() for name, value in tensors.items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}/"
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
