"""Training by several processes under the real torchrun, with gloo."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deeploop.errors import Interrupted
from deeploop.training import launch
from deeploop.training.checkpoint import sha256
from deeploop.training.config import Execution
from deeploop.training.language_model import train_language_model
from tests.training.several import train_several

Params = Callable[..., dict[str, Any]]

WITHIN = {"fp64": 1e-10, "fp32": 1e-5}
FILES = ("model.safetensors", "metrics.json", "history.json")


def plan(params: Params, **recipe: Any) -> dict[str, Any]:
    """Return the two trainings whose curves must not depend on processes and micro-batch."""
    return {
        precision: params(steps=steps, recipe={"precision": precision, **recipe})
        for precision, steps in (("fp64", 50), ("fp32", 20))
    }


def train(
    root: Path, tokens: Path, wanted: dict[str, Any], processes: int, micro: int
) -> dict[str, Any]:
    """Train all and return their histories by name."""
    run = Execution(processes=processes, micro_batch=micro)
    values = {"wanted": wanted, "execution": run.model_dump()}
    paths = {"tokens": tokens, "root": root}
    if processes == 1:
        train_several(**paths, **values, stop=lambda: False)
    else:
        launch.run_processes("tests.training.several", paths, values, run, root, lambda: False)
    return {name: json.loads((root / name / "out/history.json").read_text()) for name in wanted}


def assert_same_curves(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name, within in WITHIN.items():
        for column in ("loss", "grad_norm"):
            assert ours[name][column] == pytest.approx(theirs[name][column], rel=within)
        assert ours[name]["validations"] == [
            {"step": found["step"], "loss": pytest.approx(found["loss"], rel=within)}
            for found in theirs[name]["validations"]
        ]


@pytest.fixture(scope="module")
def one(tokens: Path, params: Params, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return train(tmp_path_factory.mktemp("one"), tokens, plan(params), 1, 4)


@pytest.fixture(scope="module")
def four(tokens: Path, params: Params, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Curves of four processes, and a run `whole` that was never interrupted."""
    root = tmp_path_factory.mktemp("four")
    train(root, tokens, plan(params) | {"whole": params(steps=150)}, 4, 1)
    return root


def test_two_processes_draw_the_curves_of_one(
    one: dict[str, Any], tokens: Path, tmp_path: Path, params: Params
) -> None:
    assert_same_curves(train(tmp_path, tokens, plan(params), 2, 1), one)


def test_four_processes_draw_the_curves_of_one(one: dict[str, Any], four: Path) -> None:
    curves = {name: json.loads((four / name / "out/history.json").read_text()) for name in one}
    assert_same_curves(curves, one)


@pytest.mark.slow
def test_any_split_of_a_batch_draws_the_same_curves(
    tokens: Path, tmp_path: Path, params: Params
) -> None:
    wanted = plan(params, batch_sequences=8)
    expected = train(tmp_path / "one", tokens, wanted, 1, 8)
    for processes in (1, 2, 4):
        for micro in (1, 2, 4):
            if processes * micro <= 8:
                place = tmp_path / f"{processes}-{micro}"
                assert_same_curves(train(place, tokens, wanted, processes, micro), expected)


def test_four_processes_stop_at_one_step_and_resume_to_the_same_bytes(
    four: Path, tokens: Path, tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four, because a sum of two numbers has no order that a resumed run could change."""
    monkeypatch.setattr(launch, "POLL_SECONDS", 0.01)
    telemetry, out, work = tmp_path / "telemetry.jsonl", tmp_path / "out", tmp_path / "work"
    execution = {"processes": 4, "micro_batch": 1}
    arguments = (params(steps=150), tokens, out, work, execution, telemetry)
    with pytest.raises(Interrupted, match="rerun to go on"):
        train_language_model(*arguments, telemetry.exists)
    assert not out.exists()
    (saved,) = (work / "checkpoints").iterdir()
    assert 1 <= int(saved.name.removeprefix("step-")) < 150
    train_language_model(*arguments, lambda: False)
    for name in FILES:
        assert sha256(out / name) == sha256(four / "whole/out" / name)
