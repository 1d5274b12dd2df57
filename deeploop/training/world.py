"""The processes that train one model: who this one is, and what it exchanges with the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from os import environ

import torch
import torch.distributed as dist
import torch.utils.deterministic
from torch import Tensor

from deeploop.errors import BuildError, UserError
from deeploop.training.allocator import keep_freed_memory
from deeploop.training.config import Execution, rows_each


@dataclass(frozen=True)
class World:
    """One process among those of a run; a single one exchanges nothing."""

    device: torch.device
    rank: int = 0
    size: int = 1
    kept: list[Tensor] = field(default_factory=list)
    """The last flag of `together`. A gloo thread that drops the last reference to a tensor wants
    Python's lock, which this thread may hold while it ends the group and waits for that thread."""

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def share(self, rows: int) -> range:
        """Return this process's contiguous share of `rows`.

        Raises:
            UserError: when the rows cannot be divided evenly.
        """
        part = rows_each(rows, self.size)
        return range(self.rank * part, (self.rank + 1) * part)

    def autocast(self, precision: str) -> AbstractContextManager[None]:
        """Return the context of a forward whose recipe asks for `precision`: bf16 is autocast."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bf16")

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """Return all processes' tensors of one shape, joined along the first axis by rank."""
        if self.size == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            dist.barrier()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Leave the block when all processes have; one that fails in it fails all.

        Else the others would wait for it until a time-out.

        Raises:
            BuildError: another process failed.
        """
        failed = torch.zeros(1, device=self.device)
        self.kept[:] = [failed]
        try:
            yield
        except Exception:
            self.sum(failed.fill_(1.0))
            raise
        if self.sum(failed).item() > 0:
            raise BuildError("another process of this training failed; its error tells why")


@contextmanager
def joined(execution: Execution) -> Iterator[World]:
    """Join the processes that torchrun started, if it did, and leave them at the end."""
    with _determinism(execution.deterministic):
        yield from _joined(execution)


def _joined(execution: Execution) -> Iterator[World]:
    size, rank = int(environ.get("WORLD_SIZE", "1")), int(environ.get("RANK", "0"))
    device = _device(execution, int(environ.get("LOCAL_RANK", "0")))
    if size == 1:
        yield World(device)
        return
    # A group of the caller's is kept: opened anew at the same store, gloo may wait for ever.
    opens = not dist.is_initialized()
    if opens:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(device, rank, size)
    finally:
        if opens:
            dist.destroy_process_group()


@contextmanager
def _determinism(wanted: bool) -> Iterator[None]:
    """Ask for kernels that sum in a fixed order; a kernel that has none warns and runs."""
    environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    before = torch.are_deterministic_algorithms_enabled()
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(wanted, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _device(execution: Execution, local_rank: int) -> torch.device:
    wanted = execution.device
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cpu":
        torch.set_num_threads(execution.threads)
        keep_freed_memory()
        return torch.device("cpu")
    here, seen = int(environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if here > seen:  # all processes of a node say so alike: none waits for another
        raise UserError(
            f"{here} processes want a GPU each, but torch sees {seen}: "
            "lower execution.processes, or set execution.device to cpu"
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device
