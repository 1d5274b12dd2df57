"""The harness's own command on an exported model, beside `deeploop evaluate` on the model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.own_way import write_definitions

ROOT = Path(__file__).parents[2]
TASKS = ("arc_easy", "winogrande", "openbookqa")


@pytest.mark.slow
@pytest.mark.parametrize("shots", [0, 1])
def test_the_harness_command_finds_the_same_numbers(
    byte_model: Path, tmp_path: Path, shots: int
) -> None:
    """Only files pass between the two: the exported folder, and definitions that name the data."""
    (tmp_path / "tasks").mkdir()
    write_definitions(tmp_path / "tasks", TASKS)
    names, exported = ",".join(TASKS), tmp_path / "exported"
    command(tmp_path, "deeploop", "export", byte_model, exported)
    settings = f"pretrained={exported},trust_remote_code=True,dtype=float32"
    command(
        tmp_path, "lm_eval", "run", "--model", "hf", "--model_args", settings, "--tasks", names,
        "--include_path", tmp_path / "tasks", "--num_fewshot", shots, "--device", "cpu",
        "--batch_size", 8, "--output_path", tmp_path / "theirs",
    )  # fmt: skip
    command(
        tmp_path, "deeploop", "evaluate", byte_model, "--samples", "--tasks", names,
        "--shots", shots, "--out", tmp_path / "ours",
    )  # fmt: skip
    (results,) = (tmp_path / "theirs").rglob("results_*.json")
    theirs: dict[str, Any] = json.loads(results.read_text())["results"]
    (metrics,) = (tmp_path / "ours").rglob("metrics.json")
    ours = json.loads(metrics.read_text())["shots"][str(shots)]
    for name in TASKS:
        assert ours[name]["acc"] == theirs[name]["acc,none"], name
        assert ours[name]["stderr"] == pytest.approx(theirs[name]["acc_stderr,none"])


def command(folder: Path, module: str, *arguments: object) -> None:
    environment = {
        **os.environ,
        "HF_HOME": str(folder / "hub"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    line = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(line, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
