from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.nn.hrm_weights import load_model
from deeploop.training.checkpoint import sha256
from deeploop.training.hrm_config import HRMRecipe, HRMTraining, learning_rate_factor
from deeploop.training.hrm_task import train_hrm
from tests.training.puzzles import SmallPuzzles

OUTPUTS = ("model.safetensors", "model.json", "metrics.json", "history.json")


def params(model: dict[str, Any] | None = None, **training: Any) -> dict[str, Any]:
    """Return the smallest run with everything: halting, exploration, puzzle embedding."""
    shape = {
        "hidden_size": 16,
        "heads": 2,
        "puzzle_embedding_size": 16,
        "h_layers": 1,
        "l_layers": 1,
        "halt_max_steps": 4,
        "halt_exploration": 0.5,
        "precision": "fp32",
        "scaling": {"rule": "deeploop"},
    }
    recipe = {"learning_rate": 1e-3, "warmup_steps": 3, "batch_rows": 8}
    recipe |= training.pop("recipe", {})
    length = {"steps": 10, "seed": 7, "validation": {"every_steps": 4, "rows": 5}} | training
    return {"model": shape | (model or {}), "training": {"recipe": recipe, **length}}


class Place:
    """Where one run writes."""

    def __init__(self, root: Path) -> None:
        self.folder, self.work = root / "out", root / "work"
        self.telemetry = root / "telemetry.jsonl"
        self.work.mkdir(parents=True, exist_ok=True)

    def train(
        self, wanted: dict[str, Any], stop: Callable[[], bool] = lambda: False, **execution: Any
    ) -> dict[str, Any]:
        data = {"train": SmallPuzzles(), "test": SmallPuzzles(seed=1)}
        train_hrm(wanted, data, self.folder, self.work, execution, self.telemetry, stop)
        metrics: dict[str, Any] = json.loads((self.folder / "metrics.json").read_text())
        return metrics

    def history(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "history.json").read_text())
        return found

    def digests(self) -> list[str]:
        return [sha256(self.folder / name) for name in OUTPUTS]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The standard run, never interrupted."""
    done = Place(tmp_path_factory.mktemp("whole"))
    done.train(params(snapshot_steps=[4]))
    return done


def test_a_run_learns_its_training_puzzles(place: Place) -> None:
    size = {"hidden_size": 32, "puzzle_embedding_size": 32, "halt_max_steps": 2}
    metrics = place.train(
        params(size, steps=150, recipe={"batch_rows": 16}, validation={"rows": 24})
    )
    assert metrics["train_loss_last"] < metrics["train_loss_first"] - 0.3
    validation = metrics["validation"]
    assert validation["step"] == 150 and validation["train_accuracy"] > 0.6
    assert validation["train_exact_accuracy"] > 0
    assert {"test_accuracy", "test_exact_accuracy"} < validation.keys()
    assert load_model(place.folder).config.scaling.rule == "deeploop"


def test_outputs_are_the_same_bytes_again(whole: Place, place: Place) -> None:
    place.train(params(snapshot_steps=[4]), checkpoint_minutes=1e-9, log_every_steps=1)
    assert place.digests() == whole.digests()
    lines = [json.loads(line) for line in place.telemetry.read_text().splitlines()]
    rates = [line for line in lines if "puzzles_per_second" in line]
    assert rates and all(r["puzzles_per_second"] > 0 < r["flops_per_second"] for r in rates)


@pytest.mark.parametrize("wanted", [True, False])
def test_kernels_sum_in_a_fixed_order_if_asked(place: Place, wanted: bool) -> None:
    seen: list[bool] = []

    def stop() -> bool:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return False

    place.train(params(steps=2), stop, deterministic=wanted)
    assert seen == [wanted, wanted]
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("steps", [1, 4, 9])
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
from deeploop.training.hrm_task import train_hrm
from tests.training.puzzles import SmallPuzzles
torch.set_num_threads(1)
wanted, root, execution = json.loads(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
data = {"train": SmallPuzzles(), "test": SmallPuzzles(seed=1)}
train_hrm(wanted, data, root / "out", root / "work", execution, root / "telemetry.jsonl",
    lambda: False)
"""


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    """SIGKILL at two random moments, with a checkpoint being written after every step."""
    wanted = params(steps=80)
    whole, place = Place(tmp_path / "whole"), Place(tmp_path / "killed")
    whole.train(wanted)
    execution = json.dumps({"checkpoint_minutes": 1e-9, "log_every_steps": 1})
    command = [
        sys.executable,
        "-c",
        KILLED,
        json.dumps(wanted),
        str(tmp_path / "killed"),
        execution,
    ]
    for last in sorted(random.Random(5).sample(range(5, 60), 2)):
        process = subprocess.Popen(command, env=environment())
        wait_for_step(place.telemetry, last)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (place.folder / "metrics.json").exists()
    place.train(wanted)
    assert place.digests() == whole.digests()


def test_one_and_two_processes_train_alike(tmp_path: Path) -> None:
    """Real torchrun over gloo, fp64: losses and every final weight."""
    wanted = params({"precision": "fp64"}, steps=20)
    single, double = Place(tmp_path / "1"), Place(tmp_path / "2")
    single.train(wanted)
    script = tmp_path / "train.py"
    script.write_text(KILLED)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(script), json.dumps(wanted), str(tmp_path / "2"), '{"micro_batch": 2}']
    subprocess.run(command, check=True, env=environment(), timeout=300)
    expected, found = single.history(), double.history()
    for column in ("loss", "grad_norm", "count", "steps", "q_halt_loss"):
        assert found[column] == pytest.approx(expected[column], rel=1e-10)
    for validation, other in zip(expected["validations"], found["validations"], strict=True):
        assert other == pytest.approx(validation, rel=1e-10)
    weights = load_file(double.folder / "model.safetensors")
    for name, value in load_file(single.folder / "model.safetensors").items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=1e-10 * value.abs().max())


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}


def wait_for_step(telemetry: Path, step: int) -> None:
    for _ in range(12_000):
        lines = telemetry.read_text().splitlines() if telemetry.exists() else []
        if lines and json.loads(lines[-1])["step"] >= step:
            return
        time.sleep(0.005)
    raise AssertionError(f"step {step} was never reached")


def test_the_result_does_not_depend_on_the_micro_batch_even_across_a_resume(
    tmp_path: Path,
) -> None:
    wanted = params({"precision": "fp64"})
    histories = []
    for sizes in ((8, 8), (2, 4)):
        place, asked = Place(tmp_path / str(sizes[0])), iter(range(1, 100))
        with pytest.raises(Interrupted):
            place.train(wanted, lambda asked=asked: next(asked) >= 5, micro_batch=sizes[0])
        place.train(wanted, micro_batch=sizes[1])
        histories.append(place.history())
    for column in ("loss", "grad_norm", "accuracy"):
        assert histories[1][column] == pytest.approx(histories[0][column], rel=1e-10)


def test_without_a_puzzle_embedding(place: Place) -> None:
    metrics = place.train(params({"puzzle_embedding_size": 0}, steps=2))
    assert metrics["puzzle_parameters"] == 0


def test_epochs_make_the_published_number_of_steps(place: Place) -> None:
    metrics = place.train(params(steps=None, epochs=2))
    data = SmallPuzzles()
    assert metrics["steps"] == int(2 * 6 * data.count / 12 / 8)


def test_lengths_that_mean_nothing_are_refused() -> None:
    for length in ({}, {"steps": 3, "epochs": 3}):
        with pytest.raises(ValueError, match="steps or epochs"):
            HRMTraining(seed=0, **length)


def test_the_published_schedule() -> None:
    recipe = HRMRecipe(warmup_steps=4, least_rate=0.1)
    factors = [learning_rate_factor(recipe, step, 14) for step in range(14)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    middle = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 2))
    assert factors[8] == pytest.approx(middle) and factors[13] == pytest.approx(0.1)
    constant = HRMRecipe(warmup_steps=4)
    assert learning_rate_factor(constant, 9, 14) == 1.0


@pytest.mark.parametrize("name", ["sequence_length", "vocab_size", "identifiers"])
def test_a_model_that_does_not_fit_the_data_is_refused(place: Place, name: str) -> None:
    with pytest.raises(UserError, match=f"the model's {name} is 99, the data set's"):
        place.train(params({name: 99}))


def test_a_checkpoint_of_another_scaling_is_refused(place: Place) -> None:
    asked = iter(range(1, 100))
    with pytest.raises(Interrupted):
        place.train(params(), lambda: next(asked) >= 2)
    with pytest.raises(BuildError, match=r"model\.scaling\.rule: deeploop, not vanilla"):
        place.train(params({"scaling": {"rule": "vanilla"}}))
