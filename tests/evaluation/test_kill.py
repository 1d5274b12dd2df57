from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path

import pytest

from deeploop.cli import main
from deeploop.errors import BuildError
from deeploop.evaluation.config import EvaluationExecution
from deeploop.evaluation.packing import Request, pack
from deeploop.evaluation.scorers import open_scorer

PATIENCE = 120.0
"""Seconds; a loaded machine starts processes slowly."""


def _wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc")
def test_a_killed_evaluation_leaves_no_processes_and_goes_on(
    byte_model: Path, tmp_path: Path
) -> None:
    options = [str(byte_model), "--samples", "--device", "cpu", "--tasks", "piqa,sciq,social_iqa"]
    options += ["--batch-tokens", "1024"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "deeploop", "evaluate", *options, "--processes", "2"]
    with subprocess.Popen([*command, "--out", str(killed)], stderr=subprocess.DEVNULL) as parent:
        _wait_for(lambda: list(killed.glob("unfinished/*.json")))
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        assert len(children) >= 2
        parent.kill()
    _wait_for(lambda: not any(_runs(int(child)) for child in children))
    kept = {path.name: path.stat().st_mtime_ns for path in killed.glob("unfinished/*.json")}
    assert not (killed / "metrics.json").exists()
    assert main(["evaluate", *options, "--out", str(killed)]) == 0
    assert main(["evaluate", *options, "--out", str(whole)]) == 0
    assert kept
    for name in ("metrics.json", "samples.parquet"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert json.loads((whole / "metrics.json").read_text())["average"]["1"] > 0


def test_a_killed_worker_is_an_error_that_says_what_to_do(byte_model: Path) -> None:
    batches = pack([Request([1, 2, 3], [4])], 100)
    execution = EvaluationExecution(processes=2, device="cpu")
    with open_scorer(byte_model, execution, "fp32") as scorer:
        assert len(list(scorer.score(batches))) == 1
        for child in active_children():
            if child.pid is not None:
                os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(BuildError, match="was killed"):
            list(scorer.score(batches))
