"""Who computes batches: this process, or several that each hold the model.

The harness runs once, in this process; others receive batches of token ids and return numbers.
Batches are made before they are shared, so prompts, batches and scores do not depend on how many
processes there are.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Protocol

import torch

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.evaluation.config import EvaluationExecution, Precision
from deeploop.evaluation.packing import Batch
from deeploop.evaluation.scoring import CausalModel, Scores, score
from deeploop.nn.folder import open_model


class Scorer(Protocol):
    """What the adapter sends batches to."""

    precision: Precision

    def score(self, batches: Sequence[Batch]) -> Iterator[Scores]:
        """Yield the scores of each batch, in order.

        Raises:
            Interrupted: the evaluation was asked to stop.
        """

    @property
    def model(self) -> CausalModel:
        """A model in this process, for generation."""


@dataclass
class LocalScorer:
    """Scores in this process."""

    model: CausalModel
    precision: Precision
    stop: Callable[[], bool] = lambda: False

    def score(self, batches: Sequence[Batch]) -> Iterator[Scores]:
        """Yield the scores of each batch."""
        for batch in batches:
            _raise_if(self.stop)
            yield score(self.model, batch, self.precision)


class ProcessScorer:
    """Scores in a pool of processes that hold one model each, on a device each."""

    def __init__(
        self,
        pool: ProcessPoolExecutor,
        folder: Path,
        device: str,
        precision: Precision,
        stop: Callable[[], bool],
    ) -> None:
        self._pool, self._folder, self._device, self._stop = pool, folder, device, stop
        self.precision = precision
        self._model: CausalModel | None = None

    @property
    def model(self) -> CausalModel:
        """The model, opened here too when it is first asked for: generation is not shared."""
        if self._model is None:
            self._model = open_model(self._folder, self._device)
        return self._model

    def score(self, batches: Sequence[Batch]) -> Iterator[Scores]:
        """Yield the scores of each batch; any free process takes the next."""
        futures = [self._pool.submit(_score_in_worker, batch) for batch in batches]
        try:
            for future in futures:
                _raise_if(self._stop)
                yield self._result(future)
        finally:
            for future in futures:
                future.cancel()

    def _result(self, future: Future[Scores]) -> Scores:
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise BuildError(
                f"a process that scores {self._folder} was killed (out of memory?): "
                "lower batch_tokens or processes, then run the same command again"
            ) from error


@contextmanager
def open_scorer(
    folder: Path,
    execution: EvaluationExecution,
    precision: Precision,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Scorer]:
    """Open a model folder in as many processes as `execution` says.

    Raises:
        UserError: it is no model folder, or there are fewer GPUs than processes.
    """
    devices = _devices(execution)
    torch.set_num_threads(execution.threads)
    if execution.processes == 1:
        yield LocalScorer(open_model(folder, devices[0]), precision, stop)
        return
    context = get_context("spawn")  # CUDA does not survive a fork
    queue = context.Queue()
    for device in devices:
        queue.put(device)
    start = (folder, queue, execution.threads, precision)
    with ProcessPoolExecutor(execution.processes, context, _start_worker, start) as pool:
        yield ProcessScorer(pool, folder, devices[0], precision, stop)


def _devices(execution: EvaluationExecution) -> list[str]:
    on_gpu = execution.device == "cuda" or (
        execution.device == "auto" and torch.cuda.is_available()
    )
    if not on_gpu:
        return ["cpu"] * execution.processes
    if torch.cuda.device_count() < execution.processes:
        raise UserError(
            f"{execution.processes} processes need as many GPUs; there are "
            f"{torch.cuda.device_count()}: lower execution.processes"
        )
    return [f"cuda:{number}" for number in range(execution.processes)]


def _raise_if(stop: Callable[[], bool]) -> None:
    if stop():
        raise Interrupted("evaluation stopped; finished tasks are kept")


_worker: LocalScorer
"""A worker's own scorer: what a pool's initialiser makes can be handed over in no other way."""


def _start_worker(folder: Path, devices: Queue[str], threads: int, precision: Precision) -> None:
    global _worker
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent ends the pool in order
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    _worker = LocalScorer(open_model(folder, devices.get()), precision)


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()  # a killed parent would leave its workers, and their GPUs, waiting for ever
        os._exit(1)


def _score_in_worker(batch: Batch) -> Scores:
    return next(_worker.score([batch]))
