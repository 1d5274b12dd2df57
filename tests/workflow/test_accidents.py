"""Killed, crowded, edited under way, out of room: the next plain command finishes the work.

DEEPLOOP_TEST_KILLS sets how many kills each engine suffers (five here, fifty in `make kill-test`).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workflow.conftest import Outcome, Project, make_project

ENGINES = ("snakemake", "dvc")
KILLS = int(os.environ.get("DEEPLOOP_TEST_KILLS", "5"))
COMMANDS = {"snakemake": ("snakemake", "-c2", "all"), "dvc": ("dvc", "repro")}
SLOW = {"TOY_STEP_SECONDS": "0.05"}


def kill_somebody(process: subprocess.Popen[str], rng: random.Random) -> str:
    """SIGKILL the engine alone, one of its stages alone, or all of them."""
    victims = descendants(process.pid)
    who = rng.choice(["engine", "stage", "all"])
    if who == "stage" and len(victims) > 1:
        kill(rng.choice(victims[1:]))
    elif who == "all":
        for victim in victims:
            kill(victim)
    kill(process.pid) if who == "engine" else None
    return who


def descendants(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in children.read_text().split()]
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def mended(project: Project, engine: str) -> Outcome:
    """Type the plain command; DVC's half-written lock file is one line and one command more."""
    outcome = project.build(engine)
    if engine == "dvc" and outcome.code and "dvc.lock" in outcome.text:
        assert project.deeploop("dvc").code == 0
        outcome = project.build(engine)
    return outcome


@pytest.mark.parametrize("engine", ENGINES)
def test_killed_at_random_moments(engine: str, built: dict[str, Project], tmp_path: Path) -> None:
    rng, killed = random.Random(f"{engine} {KILLS}"), 0
    while killed < KILLS:
        project = make_project(tmp_path / str(killed))
        for _ in range(min(2, KILLS - killed)):
            process = project.start(*COMMANDS[engine], **SLOW)
            time.sleep(rng.uniform(1.0, 9.0))
            if process.poll() is None:
                kill_somebody(process, rng)
            process.communicate(timeout=120)
            killed += 1
        outcome = mended(project, engine)
        assert outcome.code == 0, outcome.text
        assert project.manifests() == built[engine].manifests()
        assert project.deeploop("verify", "--deep").code == 0
        assert not mended(project, engine).computed


def test_a_killed_training_resumes(tmp_path: Path, built: dict[str, Project]) -> None:
    project = make_project(tmp_path / "project")
    process = project.start("snakemake", "-c1", "all", TOY_STEP_SECONDS="0.3")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("train/") and ": started" in line:
            run = line.split(":")[0]
            break
    time.sleep(2)
    for victim in descendants(process.pid):
        kill(victim)
    process.communicate(timeout=60)
    outcome = project.snakemake()
    assert (outcome.code, outcome.resumed) == (0, {run}), outcome.text
    lines = (project.root / f"results/demo/{run}/telemetry.jsonl").read_text().splitlines()
    assert [json.loads(line)["first_step"] > 0 for line in lines] == [False, True]
    assert project.manifests() == built["snakemake"].manifests()


def test_a_stage_left_behind_by_its_engine_is_waited_for(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    process = project.start("snakemake", "-c1", "all", TOY_STEP_SECONDS="0.3")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("train/") and ": started" in line:
            run = line.split(":")[0]
            break
    kill(process.pid)
    outcome = project.snakemake()
    assert outcome.code == 0, outcome.text
    assert f"{run}: waiting for process" in outcome.text
    assert run not in outcome.computed


def test_code_edited_under_way_does_not_poison_the_store(tmp_path: Path) -> None:
    """A job that waits, and one that runs, use what they were planned with."""
    project = make_project(tmp_path / "project")
    process = project.start("snakemake", "-c1", "all", TOY_STEP_SECONDS="0.1")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("tokenize/text: done"):
            break
    project.edit("stages/evaluate.py", "% 101", "% 97")
    project.edit("stages/model.py", ":16]", ":15]")
    project.edit("params.yaml", "title: Demo", "title: Edited")
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    edited = project.manifests()

    untouched = make_project(tmp_path / "untouched")
    assert untouched.snakemake().code == 0
    assert edited == untouched.manifests()  # as planned, before the edit
    after = project.snakemake()
    assert after.computed == {"evaluate/a", "evaluate/b", "evaluate/c", "report/all"}
    project.edit("stages/evaluate.py", "% 97", "% 101")
    project.edit("params.yaml", "title: Edited", "title: Demo")
    back = project.snakemake()
    assert (back.computed, project.manifests()) == (set(), untouched.manifests())


@pytest.mark.parametrize("pair", [("snakemake", "snakemake"), ("dvc", "dvc"), ("snakemake", "dvc")])
def test_two_builds_at_once(
    pair: tuple[str, str], tmp_path: Path, built: dict[str, Project]
) -> None:
    project = make_project(tmp_path / "project")
    processes = [project.start(*COMMANDS[engine], **SLOW) for engine in pair]
    texts = [process.communicate(timeout=200)[0] for process in processes]
    refused = [p.returncode for p in processes if p.returncode]
    if refused:  # DVC has a lock of its own: the second says so
        assert "dvc" in pair, texts
        assert any("lock" in text.lower() for text in texts), texts
    outcome = project.build(pair[0])
    assert outcome.code == 0, outcome.text
    assert not outcome.computed
    assert project.manifests() == built["snakemake"].manifests()
    assert project.deeploop("verify", "--deep").code == 0
    computed = [run for text in texts for run in Outcome(0, text).computed]
    assert len(computed) == len(set(computed)), "a run was computed twice"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs rights that this user does not have")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_is_one_line_and_the_build_goes_on_with_room(
    small_disk: Path, tmp_path: Path, built: dict[str, Project]
) -> None:
    project = make_project(tmp_path / "project")
    store = {"DEEPLOOP_STORE": str(small_disk / "store")}
    assert project.snakemake("tokenize", **store).code in (0, 1)
    free = shutil.disk_usage(small_disk).free
    (small_disk / "ballast").write_bytes(b"0" * max(0, free))
    outcome = project.snakemake(**store)
    assert outcome.code != 0
    assert "No space left on device" in outcome.text
    assert "Traceback" not in outcome.text
    (small_disk / "ballast").unlink()
    outcome = project.snakemake(**store)
    assert outcome.code == 0, outcome.text
    assert project.manifests() == built["snakemake"].manifests()
    assert project.deeploop("verify", "--deep", **store).code == 0


def test_a_store_elsewhere_that_only_reads(built: dict[str, Project], tmp_path: Path) -> None:
    """A store on a read-only file system serves what it has and refuses the rest in one line."""
    project = Project(tmp_path / "a copy")
    shutil.copytree(built["snakemake"].root, project.root, symlinks=True)
    store = tmp_path / "store of others"
    shutil.move(project.root / "store", store)
    shutil.rmtree(project.root / "results")
    bound = subprocess.run(["mount", "--bind", store, store], capture_output=True, check=False)
    if bound.returncode:
        pytest.skip("mounting needs rights that this user does not have")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", store], check=True)
        outcome = project.snakemake(DEEPLOOP_STORE=str(store))
        assert (outcome.code, outcome.jobs) == (0, set()), outcome.text
        project.edit("params.yaml", "votes: 3", "votes: 4")
        outcome = project.snakemake(DEEPLOOP_STORE=str(store))
        assert outcome.code != 0
        assert "Read-only file system" in outcome.text
        assert "Traceback" not in outcome.text
    finally:
        subprocess.run(["umount", "-l", store], check=False)


def test_results_behind_a_link(tmp_path: Path, built: dict[str, Project]) -> None:
    project = make_project(tmp_path / "a project with spaces")
    (tmp_path / "scratch").mkdir()
    (project.root / "results").rename(tmp_path / "scratch" / "results")
    (project.root / "results").symlink_to(tmp_path / "scratch" / "results")
    for engine in ENGINES:
        outcome = project.build(engine)
        assert outcome.code == 0, outcome.text
    assert project.manifests() == built["snakemake"].manifests()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_results_folder_that_cannot_be_written(
    engine: str, copy_of: Callable[[str], Project]
) -> None:
    project = copy_of(engine)
    shutil.rmtree(project.root / "results")
    (project.root / "results").write_text("a file in the way")
    outcome = project.build(engine)
    assert outcome.code != 0
    assert "deeploop: cannot write" in outcome.text
    assert "Traceback" not in outcome.text
