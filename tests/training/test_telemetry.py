from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deeploop.errors import UserError
from deeploop.training.language_model import train_language_model
from deeploop.training.peak import peak_flops

Params = Callable[..., dict[str, Any]]


def train(root: Path, wanted: dict[str, Any], tokens: Path, **execution: Any) -> None:
    (root / "work").mkdir()
    arguments = (wanted, tokens, root / "out", root / "work", execution)
    train_language_model(*arguments, root / "telemetry.jsonl", lambda: False)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("Quadro K600", None),
    ],
)
def test_peak_of_a_device(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak


def test_lines_hold_steps_and_validations(tokens: Path, tmp_path: Path, params: Params) -> None:
    train(tmp_path, params(), tokens, log_every_steps=4)
    lines = [json.loads(line) for line in (tmp_path / "telemetry.jsonl").read_text().splitlines()]
    validations = [line["step"] for line in lines if "validation_loss" in line]
    assert validations == [5, 10, 12]
    steps = [line for line in lines if "loss" in line]
    assert [line["step"] for line in steps] == [4, 8, 12]
    for name in ("learning_rate", "grad_norm", "memory_gb", "time"):
        assert all(name in line for line in steps)
    assert steps[1]["tokens_per_second"] > 0 and steps[1]["flops_per_second"] > 0


def test_tensorboard_gets_the_same_numbers(tokens: Path, tmp_path: Path, params: Params) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(tmp_path, params(), tokens, log_every_steps=4, loggers=["tensorboard"])
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("validation_loss")] == [5, 10, 12]
    assert [event.step for event in events.Scalars("loss")] == [4, 8, 12]


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_other_loggers_stay_offline_and_below_the_run(
    tokens: Path, tmp_path: Path, params: Params, name: str
) -> None:
    pytest.importorskip(name)
    train(tmp_path, params(), tokens, log_every_steps=4, loggers=[name])
    assert any(path.is_file() for path in (tmp_path / name).rglob("*"))


def test_a_logger_that_is_not_installed_is_named(
    tokens: Path, tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "wandb":
            raise ImportError("No module named 'wandb'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"execution\.loggers names wandb, which is not installed"):
        train(tmp_path, params(), tokens, loggers=["wandb"])
