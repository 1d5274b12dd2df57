"""Encoding many units in a pool of processes, in the order of the corpus."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from multiprocessing.synchronize import Event

from deeploop.errors import BuildError, Interrupted
from deeploop.text.units import Record, Task, encode_unit

POLL_SECONDS = 0.2


def encode_units(
    tasks: Sequence[Task],
    workers: int,
    max_tokens: int | None,
    stop: Callable[[], bool],
    report: Callable[[Task, Record], None],
) -> list[Record]:
    """Encode units in order, until all are done or the first ones hold `max_tokens`.

    Args:
        tasks: units in the order of the corpus.
        workers: processes; with one, the work is done in this one.
        max_tokens: how many tokens are wanted.
        stop: polled; true ends the work in order.
        report: called for each unit as it is finished.

    Returns:
        The records of the first units: no more of them than are needed.

    Raises:
        UserError: a source is wrong.
        BuildError: the work folder cannot be written, or a process died.
        Interrupted: `stop` said so; finished units are kept.
    """
    records: list[Record] = []
    tokens = 0
    results = _in_this_process(tasks, stop) if workers == 1 else _in_pool(tasks, workers, stop)
    for task, record in zip(tasks, results, strict=False):
        report(task, record)
        records.append(record)
        tokens += record.tokens
        if max_tokens is not None and tokens >= max_tokens:
            break
    return records


def _in_this_process(tasks: Sequence[Task], stop: Callable[[], bool]) -> Iterator[Record]:
    for task in tasks:
        yield encode_unit(task, stop)


def _in_pool(tasks: Sequence[Task], workers: int, stop: Callable[[], bool]) -> Iterator[Record]:
    """Yield records in the order of `tasks`, `workers` of them being worked on."""
    context = get_context("spawn")
    halt = context.Event()
    with ProcessPoolExecutor(workers, context, _start_worker, (halt,)) as pool:
        waiting: list[Future[Record]] = []
        ahead = iter(tasks)
        try:
            while True:
                free = workers - sum(not future.done() for future in waiting)
                for _, task in zip(range(free), ahead, strict=False):
                    waiting.append(pool.submit(_encode_in_worker, task))
                if not waiting:
                    return
                _wait(waiting, stop)
                while waiting and waiting[0].done():
                    yield waiting.pop(0).result()
        except BrokenProcessPool as error:
            raise BuildError(
                "a tokenizing process died (killed, or out of memory); "
                "the same command goes on from the finished units"
            ) from error
        finally:
            halt.set()
            pool.shutdown(cancel_futures=True)


def _wait(waiting: Sequence[Future[Record]], stop: Callable[[], bool]) -> None:
    """Wait until one more is done; an error anywhere is raised here."""
    running = [future for future in waiting if not future.done()]
    while True:
        if stop():
            raise Interrupted("tokenization was stopped; finished files are kept")
        if not running or wait(running, POLL_SECONDS, FIRST_COMPLETED).done:
            break
    for future in waiting:
        if future.done():
            future.result()


_halt: Event | None = None


def _start_worker(halt: Event) -> None:
    """Leave signals to the parent, and do not outlive it."""
    global _halt
    _halt = halt
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _encode_in_worker(task: Task) -> Record:
    assert _halt is not None
    return encode_unit(task, _halt.is_set)
