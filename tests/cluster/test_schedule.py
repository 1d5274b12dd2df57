"""A plan's wall-clock on a number of GPUs."""

from __future__ import annotations

from deeploop.cluster.schedule import wall_hours
from deeploop.plan import Run
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
