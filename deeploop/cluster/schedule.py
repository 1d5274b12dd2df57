"""What a plan's jobs ask for, and how long they take on a number of GPUs."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection

from deeploop.plan import Run


def kinds(runs: Collection[Run]) -> list[str]:
    """Return a line for each kind of job: how many, and what each asks for.

    The time is what is asked for as long as the cluster's `max_minutes` allows it.
    """
    minutes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for run in runs:
        needs = run.resources
        gpus = f"{needs.gpus} GPU{'s' * (needs.gpus > 1)}, " if needs.gpus else ""
        nodes = f"on {needs.nodes} nodes, each " if needs.nodes > 1 else ""
        cpus = f"{needs.cpus} CPU{'s' * (needs.cpus > 1)}"
        ask = f"{gpus}{nodes}{cpus}, {needs.memory_gb:g} GB"
        minutes[run.stage, ask].append(needs.minutes)
    lines = []
    for (stage, ask), asked in minutes.items():
        least, most = (f"{value / 60:.1f}" for value in (min(asked), max(asked)))
        time = most if least == most else f"{least} to {most}"
        lines.append(f"{stage}: {len(asked)} of {ask}, limit {time} h")
    return lines


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
