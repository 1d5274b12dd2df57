from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.nn import gpt
from deeploop.training.checkpoint import sha256
from deeploop.training.language_model import train_language_model
from tests.training.stopping import train_until_signalled

Params = Callable[..., dict[str, Any]]

OUTPUTS = ("model.safetensors", "model.json", "metrics.json", "history.json")


class Place:
    """Where one run writes."""

    def __init__(self, root: Path) -> None:
        self.folder, self.work = root / "out", root / "work"
        self.telemetry = root / "telemetry.jsonl"
        self.work.mkdir(parents=True, exist_ok=True)

    def train(
        self,
        tokens: Path,
        wanted: dict[str, Any],
        stop: Callable[[], bool] = lambda: False,
        **execution: Any,
    ) -> dict[str, Any]:
        train_language_model(
            wanted, tokens, self.folder, self.work, execution, self.telemetry, stop
        )
        metrics: dict[str, Any] = json.loads((self.folder / "metrics.json").read_text())
        return metrics

    def digests(self) -> list[str]:
        return [sha256(self.folder / name) for name in OUTPUTS]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def whole(tokens: Path, tmp_path_factory: pytest.TempPathFactory, params: Params) -> Place:
    """The standard run, never interrupted."""
    done = Place(tmp_path_factory.mktemp("whole"))
    done.train(tokens, params(snapshot_steps=[4, 9]))
    return done


def stop_after(steps: int) -> Callable[[], bool]:
    """Return a `stop` that asks for it during step `steps`."""
    asked = iter(range(1, 10_000))
    return lambda: next(asked) >= steps


def test_a_run_learns_and_reports(tokens: Path, place: Place, params: Params) -> None:
    fast = {"learning_rate": 1e-2, "batch_sequences": 8, "schedule": "constant"}
    metrics = place.train(tokens, params(steps=80, recipe=fast))
    assert metrics["outcome"] == "trained"
    assert metrics["final_validation_loss"] < metrics["unigram_floor"] - 0.2
    assert metrics["steps"] == 80 and metrics["tokens"] == 80 * 8 * 16
    assert metrics["unigram_floor"] == pytest.approx(math.log(30), abs=0.05)
    lines = [json.loads(line) for line in place.telemetry.read_text().splitlines()]
    assert lines[-1]["tokens_per_second"] > 0


def test_outputs_are_the_same_bytes_again(
    tokens: Path, whole: Place, place: Place, params: Params
) -> None:
    place.train(tokens, params(snapshot_steps=[4, 9]), log_every_steps=1, checkpoint_minutes=1e-9)
    assert place.digests() == whole.digests()


@pytest.mark.parametrize("steps", [1, 5, 11])
def test_a_stopped_run_resumes_to_the_same_bytes(
    tokens: Path, whole: Place, place: Place, steps: int, params: Params
) -> None:
    wanted = params(snapshot_steps=[4, 9])
    with pytest.raises(Interrupted, match=f"step {steps}"):
        place.train(tokens, wanted, stop_after(steps))
    assert not place.folder.exists()
    place.train(tokens, wanted)
    assert place.digests() == whole.digests()
    for step in (4, 9):
        name = f"snapshots/step-{step}.safetensors"
        assert sha256(place.folder / name) == sha256(whole.folder / name)


def test_a_budget_interrupts_and_loses_nothing(
    tokens: Path, whole: Place, place: Place, params: Params
) -> None:
    wanted, calls = params(snapshot_steps=[4, 9]), 0
    while True:
        calls += 1
        try:
            place.train(tokens, wanted, budget_minutes=1e-9)
            break
        except Interrupted:
            assert calls < 13
    assert calls == 12  # a step each: the last one ends the run and needs no stop
    assert place.digests() == whole.digests()


@pytest.fixture(scope="module")
def long_run(tokens: Path, tmp_path_factory: pytest.TempPathFactory, params: Params) -> Place:
    place = Place(tmp_path_factory.mktemp("long"))
    place.train(tokens, params(steps=150))
    return place


@pytest.mark.parametrize("signals", [[signal.SIGKILL], [signal.SIGTERM] * 3, [signal.SIGINT]])
def test_a_killed_run_resumes_to_the_same_bytes(
    tokens: Path, long_run: Place, place: Place, params: Params, signals: list[signal.Signals]
) -> None:
    """Killed at three random moments, with a checkpoint being written after every step."""
    wanted, moments = params(steps=150), random.Random(signals[0])
    processes = multiprocessing.get_context("forkserver")  # it imports torch once
    processes.set_forkserver_preload(["tests.training.stopping"])
    for last in sorted(moments.sample(range(5, 90), 3)):
        process = processes.Process(
            target=train_until_signalled,
            args=(wanted, tokens, place.folder, place.work, place.telemetry),
        )
        known = len(lines_of(place.telemetry))
        process.start()
        wait_for_step(place.telemetry, known, last)
        for number in signals:
            os.kill(process.pid or 0, number)
        process.join()
        assert process.exitcode == (-signal.SIGKILL if signals[0] == signal.SIGKILL else 75)
        assert not (place.folder / "metrics.json").exists()
    place.train(tokens, wanted)
    assert place.digests() == long_run.digests()


def lines_of(telemetry: Path) -> list[str]:
    return telemetry.read_text().splitlines() if telemetry.exists() else []


def wait_for_step(telemetry: Path, known: int, step: int) -> None:
    """Wait until there are more than `known` lines, and the last is of `step` or later."""
    for _ in range(6000):
        lines = lines_of(telemetry)
        if len(lines) > known and json.loads(lines[-1])["step"] >= step:
            return
        time.sleep(0.005)
    raise AssertionError(f"step {step} was never reached")


def test_loss_and_gradients_do_not_depend_on_the_micro_batch(
    tokens: Path, tmp_path: Path, params: Params
) -> None:
    wanted = params(steps=10, recipe={"precision": "fp64"})
    histories = []
    for size in (1, 2, 4):
        place = Place(tmp_path / str(size))
        place.train(tokens, wanted, micro_batch=size)
        histories.append(json.loads((place.folder / "history.json").read_text()))
    for history in histories[1:]:
        for column in ("loss", "grad_norm"):
            assert history[column] == pytest.approx(histories[0][column], rel=1e-10)


def test_a_non_finite_run_ends_early_with_its_last_finite_weights(
    tokens: Path, place: Place, monkeypatch: pytest.MonkeyPatch, params: Params
) -> None:
    poison_after(monkeypatch, updates=7)
    metrics = place.train(tokens, params())
    assert metrics["outcome"] == "diverged"
    assert metrics["steps"] == 7
    assert metrics["validation_loss"] is not None
    weights = load_file(place.folder / "model.safetensors")
    assert all(value.isfinite().all() for value in weights.values())


def test_before_any_validation_the_mean_of_the_last_train_losses_stands_in(
    tokens: Path, place: Place, monkeypatch: pytest.MonkeyPatch, params: Params
) -> None:
    poison_after(monkeypatch, updates=3)
    metrics = place.train(tokens, params())
    assert metrics["validation_loss_source"] == "train_last_50"
    assert metrics["validation_loss"] == metrics["train_loss_last"]
    assert metrics["final_validation_loss"] is None


def poison_after(monkeypatch: pytest.MonkeyPatch, updates: int) -> None:
    """Make the loss infinite from update `updates` (from 0) on."""
    calls = iter(range(10_000))
    forward = gpt.LoopedGPT.forward

    def poisoned(self: gpt.LoopedGPT, *batch: torch.Tensor) -> torch.Tensor:
        loss = forward(self, *batch)
        return loss * math.inf if next(calls) >= updates else loss

    monkeypatch.setattr(gpt.LoopedGPT, "forward", poisoned)


def test_a_model_that_cannot_learn_is_at_the_floor(
    tokens: Path, place: Place, params: Params
) -> None:
    metrics = place.train(tokens, params(recipe={"learning_rate": 1e-9}))
    assert metrics["outcome"] == "floor"


def test_the_reported_step_is_validated_and_reported(
    tokens: Path, place: Place, params: Params
) -> None:
    metrics = place.train(tokens, params(report_step=7))
    history = json.loads((place.folder / "history.json").read_text())
    assert [found["step"] for found in history["validations"]] == [5, 7, 10, 12]
    assert metrics["validation_step"] == 7
    assert metrics["validation_loss_source"] == "validation"
    assert metrics["validation_loss"] == history["validations"][1]["loss"]
    assert metrics["final_validation_step"] == 12


def test_a_checkpoint_of_another_configuration_is_refused(
    tokens: Path, place: Place, params: Params
) -> None:
    with pytest.raises(Interrupted):
        place.train(tokens, params(), stop_after(3))
    with pytest.raises(BuildError, match=r"training\.recipe\.learning_rate: 0\.001, not 0\.002"):
        place.train(tokens, params(recipe={"learning_rate": 2e-3}))


def test_a_micro_batch_that_does_not_divide_the_rows(
    tokens: Path, place: Place, params: Params
) -> None:
    with pytest.raises(UserError, match="micro_batch 3 does not divide the 4 rows"):
        place.train(tokens, params(), micro_batch=3)


def test_too_few_validation_tokens(tokens: Path, place: Place, params: Params) -> None:
    with pytest.raises(UserError, match="too few"):
        place.train(tokens, params(validation={"every_steps": 5, "tokens": 5000}))


def test_tokens_beyond_the_vocabulary(tokens: Path, place: Place, params: Params) -> None:
    wanted = params()
    wanted["model"]["backbone"]["vocab_size"] = 16
    with pytest.raises(UserError, match="vocabulary"):
        place.train(tokens, wanted)


def test_missing_tokens(tmp_path: Path, place: Place, params: Params) -> None:
    with pytest.raises(UserError, match="no token shards"):
        place.train(tmp_path, params())
