"""Faults on a real Slurm: each ends with the same bytes, no duplicate training, and no hang."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.conftest import Build, Slurm, can_start, events
from tests.workflow.conftest import Project

pytestmark = [
    pytest.mark.skipif(not can_start(), reason="needs root and Debian's slurm-wlm and munge"),
    pytest.mark.xdist_group("slurm"),  # one cluster serves all
]
Start = Callable[..., Build]
TRAIN = "train/a"


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that holds the training after its first step until it is removed."""
    file = tmp_path / "hold"
    file.touch()
    monkeypatch.setenv("TOY_HOLD", str(file))
    return file


def started(project: Project) -> list[dict]:
    return events(project, TRAIN, "started")


def at_work(project: Project, slurm: Slurm) -> str:
    """Wait until the training has saved something; return its job."""
    slurm.wait(lambda: list(project.root.glob("store/train/*.partial/work/state.txt")))
    return slurm.job_of(TRAIN)


def assert_built(build: Build, undisturbed: dict[str, str]) -> str:
    outcome = build.outcome()
    assert outcome.code == 0, outcome.text
    assert build.project.manifests() == undisturbed
    return outcome.text


def first_steps(project: Project) -> list[int]:
    lines = (project.root / "results/smoke/train/a/telemetry.jsonl").read_text().splitlines()
    return [int(line.rstrip("}").rpartition(" ")[2]) for line in lines]


def test_the_literal_command_builds_the_report(
    toy: Project, slurm: Slurm, start: Start, undisturbed: dict[str, str]
) -> None:
    assert_built(start(toy), undisturbed)
    assert len(started(toy)) == 1
    again = start(toy).outcome()
    assert (again.code, again.jobs) == (0, set()), again.text


def test_requeue_then_scancel(
    toy: Project, slurm: Slurm, start: Start, hold: Path, undisturbed: dict[str, str]
) -> None:
    build = start(toy)
    job = at_work(toy, slurm)
    slurm.run("scontrol", "requeue", job)
    slurm.wait(lambda: len(first_steps(toy)) == 2)
    node = started(toy)[1]["node"]
    status = toy.deeploop("status", "--suite", "smoke").text
    assert re.search(rf"{TRAIN} +running +{node}, Slurm job {job}; attempt 2", status), status
    assert "Trying to restart" not in build.text  # no retry was spent
    slurm.run("scancel", job)
    hold.unlink()
    text = assert_built(build, undisturbed)
    assert text.count("Trying to restart") == 1
    jobs = [record["job"] for record in started(toy)]
    assert jobs[:2] == [job, job] and len(jobs) == 3 and jobs[2] != job
    assert 0 < first_steps(toy)[1] < first_steps(toy)[2]  # it resumed
    logs = list((toy.root / "logs/smoke/train").glob("a.job-*.log"))
    assert len(logs) == 3  # one an attempt


@pytest.mark.slow
def test_a_node_goes_down(
    toy: Project, slurm: Slurm, start: Start, hold: Path, undisturbed: dict[str, str]
) -> None:
    build = start(toy)
    at_work(toy, slurm)
    node = started(toy)[0]["node"]
    slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    hold.unlink()
    assert_built(build, undisturbed)  # the node comes back by itself: its slurmd still answers
    assert len(started(toy)) == 2


@pytest.mark.slow
def test_the_controller_is_away_for_a_while(
    toy: Project, slurm: Slurm, start: Start, hold: Path, undisturbed: dict[str, str]
) -> None:
    build = start(toy)
    at_work(toy, slurm)
    try:
        slurm.do("stop-controller")
        slurm.wait(lambda: "Slurm does not answer" in build.text)
    finally:
        slurm.do("start-controller")
    hold.unlink()
    text = assert_built(build, undisturbed)
    assert "Slurm answers again" in text
    assert len(started(toy)) == 1


def test_snakemake_is_killed_and_started_again(
    toy: Project, slurm: Slurm, start: Start, hold: Path, undisturbed: dict[str, str]
) -> None:
    killed = start(toy)
    job = at_work(toy, slurm)
    killed.kill()
    build = start(toy)
    slurm.wait(lambda: f"{TRAIN}: Slurm job {job} (running) computes it" in build.text)
    hold.unlink()
    assert_built(build, undisturbed)
    assert len(started(toy)) == 1


@pytest.mark.slow
def test_sbatch_fails_for_a_while(
    toy: Project, slurm: Slurm, start: Start, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    """The real sbatch behind one that is refused by the controller a few times."""
    tries = tmp_path / "tries"
    wrapper = tmp_path / "bin" / "sbatch"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *--test-only*) exec /usr/bin/sbatch "$@";; esac\n'
        f"echo x >> {tries}\n"
        f"if [ $(wc -l < {tries}) -le 2 ]; then\n"
        "  echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller"
        " (connect failure)' >&2; exit 1\nfi\n"
        'exec /usr/bin/sbatch "$@"\n'
    )
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}{os.pathsep}{toy.environment()['PATH']}"
    text = assert_built(start(toy, PATH=path), undisturbed)
    assert "trying again in 2 s" in text and "Trying to restart" not in text


@pytest.mark.slow
def test_a_second_build_waits(
    toy: Project, slurm: Slurm, start: Start, hold: Path, undisturbed: dict[str, str]
) -> None:
    first = start(toy)
    at_work(toy, slurm)
    second = start(toy)
    slurm.wait(lambda: "is building here; waiting" in second.text)
    hold.unlink()
    assert_built(first, undisturbed)
    assert (second.outcome().code, second.outcome().jobs) == (0, set())
    assert len(started(toy)) == 1


@pytest.mark.slow
def test_builds_on_another_host(
    toy: Project, slurm: Slurm, start: Start, hold: Path, undisturbed: dict[str, str]
) -> None:
    """In a file system whose kernel locks end at the host, so that the build lock is free there."""
    host = ("unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh")
    if subprocess.run([*host, "true"], check=False).returncode:
        pytest.skip("this container may not have another host name")
    first = start(toy)
    job = at_work(toy, slurm)
    (toy.root / "results/.build.lock").unlink()
    manifest = "results/smoke/train/a/manifest.json"
    alone = toy.run(*host, "snakemake", "-c1", manifest, "--config", "suite=smoke")
    assert alone.code == 1
    said = rf"{TRAIN} is being computed by .*Slurm job {job} since"
    assert re.search(said, alone.text), alone.text
    second = start(toy, *host)
    slurm.wait(lambda: f"{TRAIN}: Slurm job {job} (running) computes it" in second.text)
    hold.unlink()
    assert_built(first, undisturbed)
    assert_built(second, undisturbed)
    assert len(started(toy)) == 1


@pytest.mark.slow
def test_a_time_limit_is_requeued(
    toy: Project, slurm: Slurm, start: Start, undisturbed: dict[str, str]
) -> None:
    settings = toy.root / "workflow/profiles/slurm/local.yaml"
    settings.write_text(settings.read_text() + "max_minutes: 1\n")
    build = start(toy, TOY_STEP_SECONDS="4")  # 80 s of steps in jobs of a minute
    text = assert_built(build, undisturbed)
    assert len({record["job"] for record in started(toy)}) == 1
    assert len(started(toy)) > 1
    assert "Trying to restart" not in text


@pytest.mark.slow
def test_requeues_without_progress_end(toy: Project, slurm: Slurm, start: Start) -> None:
    toy.edit("stages/train.py", "    for index in range", STUCK + "    for index in range")
    build = start(toy)
    for attempt in range(1, 4):
        slurm.wait(lambda number=attempt: said(toy, attempt=number))
        slurm.run("scancel", "--batch", "--signal=TERM", slurm.job_of(TRAIN))
    outcome = build.outcome()
    assert outcome.code == 1
    assert "given up: 3 attempts in a row got no further" in outcome.text
    assert len(started(toy)) == 3 and "Trying to restart" not in outcome.text


def said(project: Project, attempt: int) -> bool:
    """Whether the stuck training of an attempt runs, so hears a signal."""
    path = project.root / "results/smoke/train/a/telemetry.jsonl"
    return path.exists() and len(path.read_text().splitlines()) == attempt


STUCK = """    while not job.stop():
        time.sleep(0.1)
    raise Interrupted(job.run)
"""


def settings(project: Project, text: str) -> None:
    (project.root / "workflow/profiles/slurm/local.yaml").write_text(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partition: gpuu\n", "Invalid partition name"),
        ("options: ['--gres=gpu:5']\n", "Requested node configuration is not available"),
        ("partion: gpu\n", "local.yaml:1: partion: unknown key; did you mean 'partition'?"),
    ],
)
def test_an_impossible_request_is_one_line(
    toy: Project, start: Start, text: str, said: str
) -> None:
    settings(toy, text)
    outcome = start(toy).outcome()
    assert outcome.code == 2
    last = outcome.text.splitlines()[-1]
    assert last.startswith("deeploop: ") and said in last, outcome.text
    assert not outcome.jobs and "Traceback" not in outcome.text


def test_no_slurm_on_the_machine(toy: Project, start: Start, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if tool.name not in ("sbatch", "squeue", "sinfo", "sacct", "scontrol", "scancel", "srun"):
            (tools / tool.name).symlink_to(tool)
    path = f"{Path(sys.executable).parent}{os.pathsep}{tools}"
    outcome = start(toy, PATH=path).outcome()
    assert outcome.code == 2
    assert "no Slurm on this machine" in outcome.text.splitlines()[-1], outcome.text


def test_other_libraries_on_a_node_stop_the_job(toy: Project, slurm: Slurm, start: Start) -> None:
    """A node whose environment is another one: stands for it a module path with another numpy."""
    fake = toy.root / "other" / "numpy-0.1.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    toy.edit("stages/train.py", "pinned=True)", 'pinned=True, libraries=("numpy",))')
    setup = f"setup: ['export PYTHONPATH={toy.root}/other:$PYTHONPATH']\n"
    settings(toy, "poll_seconds: 1\n" + setup)
    outcome = start(toy).outcome()
    assert outcome.code == 1
    assert "has other libraries than the build: numpy 0.1 (planned with" in outcome.text
    assert "Trying to restart" not in outcome.text
