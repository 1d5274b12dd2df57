"""Locks: one holder at a time, dead holders give way, across hosts too."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from deeploop import locks
from deeploop.errors import BuildError
from deeploop.locks import RunLock, hold_build_lock, holder_of

ROOT = Path(__file__).parents[1]
HOLD = """
import sys, time
from pathlib import Path
from deeploop.locks import RunLock
with RunLock(Path(sys.argv[1]), 'train_lm/x'):
    print('held', flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(tmp_path: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run.lock")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_live_holder_is_named(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    with pytest.raises(BuildError, match=f"train_lm/x is being computed by process {other.pid} on"):
        RunLock(tmp_path / "run.lock", "train_lm/x").__enter__()
    assert f"process {other.pid}" in str(holder_of(tmp_path / "run.lock"))


def test_a_dead_holders_lock_is_taken_over(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    other.kill()
    other.wait()
    with RunLock(tmp_path / "run.lock", "train_lm/x"):
        assert f"process {os.getpid()}" in str(holder_of(tmp_path / "run.lock"))
    assert not (tmp_path / "run.lock").exists()


def test_a_reused_process_id_is_not_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with RunLock(path, "train_lm/x"):
        holder = json.loads(path.read_text())
    path.write_text(json.dumps(holder | {"started": "1"}))
    assert holder_of(path) is None


def test_a_holder_elsewhere_lives_as_long_as_it_beats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.lock"
    with RunLock(path, "train_lm/x"):
        holder = json.loads(path.read_text())
    path.write_text(json.dumps(holder | {"host": "node7", "slurm_job": "4711"}))
    with pytest.raises(BuildError, match="on node7, Slurm job 4711"):
        RunLock(path, "train_lm/x", wait=True).__enter__()
    long_ago = time.time() - locks.DEAD_AFTER_SECONDS - 5
    os.utime(path, (long_ago, long_ago))
    with RunLock(path, "train_lm/x"):
        assert "node7" not in path.read_text()


def test_a_requeued_job_takes_over_from_its_earlier_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.lock"
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    with RunLock(path, "train_lm/x"):
        holder = json.loads(path.read_text())
    path.write_text(json.dumps(holder | {"host": "node7"}))
    with RunLock(path, "train_lm/x"):
        assert "node7" not in path.read_text()


def test_the_holder_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "HEARTBEAT_SECONDS", 0.05)
    path = tmp_path / "run.lock"
    with RunLock(path, "train_lm/x"):
        os.utime(path, (1, 1))
        deadline = time.time() + 20
        while path.stat().st_mtime == 1 and time.time() < deadline:
            time.sleep(0.02)
        assert path.stat().st_mtime > 1


def test_only_one_of_many_gets_it(tmp_path: Path) -> None:
    path, got, ready = tmp_path / "run.lock", [], threading.Barrier(8)
    locks_held = [RunLock(path, "train_lm/x") for _ in range(8)]

    def take(lock: RunLock) -> None:
        ready.wait()
        with contextlib.suppress(BuildError):
            got.append(lock.__enter__())

    threads = [threading.Thread(target=take, args=(lock,)) for lock in locks_held]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_waiting_ends_with_the_holder(
    tmp_path: Path, other: subprocess.Popen[str], capfd: pytest.CaptureFixture[str]
) -> None:
    threading.Timer(0.3, other.kill).start()
    threading.Thread(target=other.wait).start()
    with RunLock(tmp_path / "run.lock", "train_lm/x", wait=True):
        pass
    assert f"train_lm/x: waiting for process {other.pid}" in capfd.readouterr().err


def test_the_build_lock_dies_with_its_holder(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom deeploop.locks import hold_build_lock\n"
        "lock = hold_build_lock(Path(sys.argv[1]), 'snakemake', wait=False)\n"
        "print('held', flush=True)\ntime.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert hold_build_lock(tmp_path, "dvc", wait=False) is None
        process.kill()
    lock = hold_build_lock(tmp_path, "dvc", wait=False)
    assert lock is not None
    lock.close()


def test_a_results_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file in the way")
    with pytest.raises(BuildError, match="cannot write"):
        hold_build_lock(tmp_path, "dvc", wait=True)
