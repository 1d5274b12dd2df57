"""How long a plan takes on a number of GPUs: its jobs, laid out as a scheduler would."""

from __future__ import annotations

import heapq
from collections.abc import Collection

from deeploop.plan import Run


def wall_hours(runs: Collection[Run], gpus: int) -> float | None:
    """Return the hours from the first job to the last, None when a job needs more GPUs.

    Jobs start as soon as their inputs are there and enough GPUs are free, in plan order, and take
    what the plan estimates; those without GPUs take no time here, and neither does the queue.
    """
    if any(run.resources.gpus > gpus for run in runs):
        return None
    inside = set(runs)
    ready_at: dict[Run, float] = {}
    waiting = list(runs)
    order = {run: number for number, run in enumerate(runs)}
    at_work: list[tuple[float, int, Run]] = []
    now, free = 0.0, gpus
    while waiting or at_work:
        for run in list(waiting):
            inputs = [up for up in run.inputs if up in inside]
            ready = all(ready_at.get(up, now + 1) <= now for up in inputs)
            if ready and run.resources.gpus <= free:
                waiting.remove(run)
                free -= run.resources.gpus
                heapq.heappush(at_work, (now + hours_of(run), order[run], run))
        now = at_work[0][0]
        while at_work and at_work[0][0] <= now:
            _, _, done = heapq.heappop(at_work)
            ready_at[done] = now
            free += done.resources.gpus
    return now


def hours_of(run: Run) -> float:
    """Return a job's estimated wall-clock."""
    return run.resources.gpu_hours / run.resources.gpus if run.resources.gpus else 0.0
