"""A plan's wall-clock on a number of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from deeploop.cluster.schedule import kinds, wall_hours
from deeploop.plan import Run, load_plan
from deeploop.stage import Draft, Resources, Section, Stage

STAGE = Stage("train", "", Section, lambda section, plan: [])


def run(name: str, gpus: int, hours: float, *inputs: Run) -> Run:
    draft = Draft(name, {}, resources=Resources(gpus=gpus, gpu_hours=hours * gpus))
    return Run("suite", "train", name, {}, inputs, draft, STAGE)


def test_jobs_share_the_gpus() -> None:
    data = run("data", 0, 0)
    runs = [data, *(run(f"r{n}", 4, 10, data) for n in range(4))]
    assert wall_hours(runs, 16) == 10
    assert wall_hours(runs, 8) == 20
    assert wall_hours(runs, 7) == 40  # three are left over and fit nobody
    assert wall_hours(runs, 3) is None


def test_a_job_waits_for_its_inputs_and_lets_others_go_first() -> None:
    first = run("first", 4, 5)
    after = run("after", 8, 1, first)
    beside = run("beside", 4, 7)
    assert wall_hours([first, after, beside], 8) == 8


def test_inputs_outside_the_question_are_there() -> None:
    assert wall_hours([run("b", 1, 3, run("a", 1, 100))], 1) == 3


def test_kinds_of_jobs() -> None:
    short = [Resources(gpus=4, cpus=16, memory_gb=64, minutes=minutes) for minutes in (30, 90)]
    wide = Resources(gpus=16, nodes=2, cpus=32, memory_gb=8.5, minutes=60)
    drafts = [Draft(f"r{n}", {}, resources=needs) for n, needs in enumerate([*short, wide])]
    runs = [Run("suite", "train", draft.name, {}, (), draft, STAGE) for draft in drafts]
    assert kinds(runs) == [
        "train: 2 of 4 GPUs, 16 CPUs, 64 GB, limit 0.5 to 1.5 h",
        "train: 1 of 16 GPUs, on 2 nodes, each 32 CPUs, 8.5 GB, limit 1.0 h",
    ]


@pytest.mark.parametrize("suite", ["paper", "extras"])
def test_what_needs_the_network_is_no_job(suite: str) -> None:
    """Compute nodes often have none: it runs where Snakemake runs, on a login node."""
    runs = [run for run in load_plan(Path(__file__).parents[2], suite) if run.resources.network]
    assert {run.stage for run in runs} == {"fetch_text", "fetch_tasks", "fetch_arc"}
    assert all(run.declaration.local for run in runs)
