"""Batches made ahead of the step that needs them, so that no device waits for a disk."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Batch = TypeVar("Batch")


def prefetch(
    load: Callable[[Item], Batch], items: Iterable[Item], depth: int = 2
) -> Generator[Batch, None, None]:
    """Yield `load(item)` for each item, `depth` of them loaded ahead by a background thread.

    An exception of `load` is raised where its batch would have been yielded.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch") as pool:
        waiting: list[Future[Batch]] = []
        ahead = iter(items)
        try:
            while True:
                while len(waiting) <= depth:
                    try:
                        waiting.append(pool.submit(load, next(ahead)))
                    except StopIteration:
                        break
                if not waiting:
                    return
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
