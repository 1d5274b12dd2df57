"""Training by several processes under the real torchrun, with gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Params = Callable[..., dict[str, Any]]

TRAIN = """
import json, sys
from pathlib import Path
from deeploop.training.language_model import train_language_model
wanted, execution = json.loads(sys.argv[1]), json.loads(sys.argv[2])
tokens, root = Path(sys.argv[3]), Path(sys.argv[4])
train_language_model(wanted, tokens, root / "out", root / "work", execution,
    root / "telemetry.jsonl", lambda: False)
"""


def torchrun(
    processes: int, wanted: dict[str, Any], tokens: Path, root: Path, **execution: Any
) -> dict[str, Any]:
    """Train in `root` and return the history."""
    (root / "work").mkdir(parents=True)
    script = root / "train.py"
    script.write_text(TRAIN)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", str(script)]
    command += [json.dumps(wanted), json.dumps(execution), str(tokens), str(root)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}
    subprocess.run(command, check=True, env=environment, timeout=300)
    history: dict[str, Any] = json.loads((root / "out/history.json").read_text())
    return history


@pytest.mark.parametrize(
    ("precision", "steps", "within"), [("fp64", 50, 1e-10), ("fp32", 20, 1e-5)]
)
def test_one_two_and_four_processes_draw_the_same_curve(
    tokens: Path, tmp_path: Path, params: Params, precision: str, steps: int, within: float
) -> None:
    recipe = {"precision": precision, "batch_sequences": 8}
    wanted = params(steps=steps, recipe=recipe)
    curves = {
        (processes, micro): torchrun(
            processes, wanted, tokens, tmp_path / f"{processes}-{micro}", micro_batch=micro
        )
        for processes, micro in ((1, 8), (2, 1), (2, 4), (4, 2))
    }
    expected = curves[1, 8]
    for curve in curves.values():
        for column in ("loss", "grad_norm"):
            assert curve[column] == pytest.approx(expected[column], rel=within)
        assert curve["validations"] == [
            {"step": found["step"], "loss": pytest.approx(found["loss"], rel=within)}
            for found in expected["validations"]
        ]
