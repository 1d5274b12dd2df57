"""Launching several processes: how they end, and that none outlives its parent."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.training.config import Execution
from deeploop.training.launch import command, run_processes

WORKER = "tests.training.launched"


def launch(folder: Path, ending: str, stop: Callable[[], bool] = lambda: False) -> None:
    run = Execution(processes=2, device="cpu")
    run_processes(WORKER, {"folder": folder}, {"ending": ending}, run, folder, stop)


def appears(path: Path, seconds: float = 120) -> bool:
    for _ in range(int(seconds / 0.02)):
        if path.exists():
            return True
        time.sleep(0.02)
    return False


def test_a_mistake_comes_back_as_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(UserError, match=r"^the batch is odd$"):
        launch(tmp_path, "mistake")
    assert "rank 0: mistake" in caplog.messages and "rank 1: mistake" not in caplog.messages
    assert "Traceback" not in capfd.readouterr().err


def test_a_bug_names_the_process_and_ends_the_others(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"^ValueError in process 1: a bug$"):
        launch(tmp_path, "bug")
    assert not running(tmp_path, "0")


def test_a_killed_worker_is_said_to_be_killed(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"exit code 1: killed from outside, or out of memory"):
        launch(tmp_path, "killed")


def test_a_stop_reaches_the_workers(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="saved at step 3"):
        launch(tmp_path, "stop", stop=(tmp_path / "beat-0").exists)


PARENT = """
import sys
from pathlib import Path
from tests.training.test_launch import launch
launch(Path(sys.argv[1]), "orphan")
"""


def test_workers_die_with_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stderr=subprocess.DEVNULL,
    )
    assert appears(tmp_path / "beat-0") and appears(tmp_path / "beat-1")
    parent.kill()
    parent.wait()
    for _ in range(6000):
        if not running(tmp_path, "0") and not running(tmp_path, "1"):
            return
        time.sleep(0.02)
    raise AssertionError("a worker outlived its parent")


def running(folder: Path, rank: str) -> bool:
    try:
        os.kill(int((folder / f"alive-{rank}").read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def test_nodes_need_slurm_and_an_even_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(UserError, match="needs a Slurm job"):
        command(Execution(processes=8, nodes=2))
    with pytest.raises(UserError, match=r"nodes 3 does not divide execution\.processes 8"):
        command(Execution(processes=8, nodes=3))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    line = command(Execution(processes=8, nodes=2))
    assert line[:3] == ["srun", "--nodes=2", "--ntasks-per-node=1"]
    assert {"--nproc-per-node=4", "--nnodes=2", "--rdzv-id=17"} <= set(line)
