"""Training by several processes under the real torchrun, with gloo."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deeploop.errors import Interrupted, UserError
from deeploop.training.checkpoint import sha256
from deeploop.training.language_model import train_language_model

Params = Callable[..., dict[str, Any]]

PRECISIONS = [("fp64", 50, 1e-10), ("fp32", 20, 1e-5)]
FILES = ("model.safetensors", "metrics.json", "history.json")


def train(
    root: Path,
    wanted: dict[str, Any],
    tokens: Path,
    stop: Callable[[], bool] = lambda: False,
    **execution: Any,
) -> dict[str, Any]:
    """Train in `root` and return the history."""
    (root / "work").mkdir(parents=True, exist_ok=True)
    train_language_model(
        wanted, tokens, root / "out", root / "work", execution, root / "telemetry.jsonl", stop
    )
    history: dict[str, Any] = json.loads((root / "out/history.json").read_text())
    return history


def compare(
    root: Path, wanted: dict[str, Any], tokens: Path, splits: list[tuple[int, int]], within: float
) -> None:
    """Train with every (processes, micro-batch) and compare with one process at once."""
    expected = train(root / "one", wanted, tokens)
    for processes, micro in splits:
        place = root / f"{processes}-{micro}"
        curve = train(place, wanted, tokens, processes=processes, micro_batch=micro)
        for column in ("loss", "grad_norm"):
            assert curve[column] == pytest.approx(expected[column], rel=within)
        assert curve["validations"] == [
            {"step": found["step"], "loss": pytest.approx(found["loss"], rel=within)}
            for found in expected["validations"]
        ]


@pytest.mark.parametrize(("precision", "steps", "within"), PRECISIONS)
def test_two_processes_draw_the_curve_of_one(
    tokens: Path, tmp_path: Path, params: Params, precision: str, steps: int, within: float
) -> None:
    wanted = params(steps=steps, recipe={"precision": precision})
    compare(tmp_path, wanted, tokens, [(2, 1)], within)


def test_four_processes_draw_the_curve_of_one(tokens: Path, tmp_path: Path, params: Params) -> None:
    compare(tmp_path, params(steps=50, recipe={"precision": "fp64"}), tokens, [(4, 1)], 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "steps", "within"), PRECISIONS)
def test_any_split_of_a_batch_draws_the_same_curve(
    tokens: Path, tmp_path: Path, params: Params, precision: str, steps: int, within: float
) -> None:
    wanted = params(steps=steps, recipe={"precision": precision, "batch_sequences": 8})
    splits = [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4), (4, 1), (4, 2)]
    compare(tmp_path, wanted, tokens, splits, within)


def test_two_processes_stop_at_one_step_and_resume_to_the_same_bytes(
    tokens: Path, tmp_path: Path, params: Params
) -> None:
    wanted, whole, place = params(), tmp_path / "whole", tmp_path / "stopped"
    train(whole, wanted, tokens, processes=2)
    telemetry = place / "telemetry.jsonl"
    with pytest.raises(Interrupted, match="rerun to go on"):
        train(place, wanted, tokens, telemetry.exists, processes=2, log_every_steps=1)
    assert not (place / "out").exists()
    (saved,) = (place / "work" / "checkpoints").iterdir()
    assert 1 <= int(saved.name.removeprefix("step-")) < 12
    train(place, wanted, tokens, processes=2)
    for name in FILES:
        assert sha256(place / "out" / name) == sha256(whole / "out" / name)


def test_processes_that_do_not_divide_the_batch(
    tokens: Path, tmp_path: Path, params: Params
) -> None:
    with pytest.raises(UserError, match="3 processes do not divide the 4 rows of a batch"):
        train(tmp_path, params(), tokens, processes=3)
    assert not (tmp_path / "work" / "launch").exists()
