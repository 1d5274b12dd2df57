from __future__ import annotations

import builtins
import importlib.util
import json
import sqlite3
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deeploop.errors import Interrupted, UserError
from deeploop.training.language_model import train_language_model
from deeploop.training.peak import peak_flops

Params = Callable[..., dict[str, Any]]


def train(
    root: Path,
    wanted: dict[str, Any],
    tokens: Path,
    stop: Callable[[], bool] = lambda: False,
    **execution: Any,
) -> None:
    (root / "work").mkdir(exist_ok=True)
    arguments = (wanted, tokens, root / "out", root / "work", execution)
    train_language_model(*arguments, root / "telemetry.jsonl", stop)


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


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio"])
def test_a_dashboard_gets_the_numbers_of_all_attempts(
    tokens: Path, tmp_path: Path, params: Params, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if importlib.util.find_spec(name) is None:  # trackio must not be imported before it is told
        pytest.skip(f"{name} is not installed")
    calls = iter(range(100))
    with pytest.raises(Interrupted, match="saved at step 6"):
        execution = {"log_every_steps": 2, "loggers": [name]}
        train(tmp_path, params(), tokens, lambda: next(calls) == 5, **execution)
    train(tmp_path, params(), tokens, **execution)
    assert capsys.readouterr().out == ""
    found = {"tensorboard": scalars, "wandb": wandb_history, "trackio": trackio_metrics}[name](
        tmp_path / name
    )
    lines = [json.loads(line) for line in (tmp_path / "telemetry.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [2, 4, 6, 8, 10, 12]
    for metric in ("loss", "learning_rate", "grad_norm", "validation_loss"):
        expected = {line["step"]: pytest.approx(line[metric]) for line in lines if metric in line}
        assert found[metric] == expected


Found = dict[str, dict[int, float]]


def scalars(folder: Path) -> Found:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: {event.step: event.value for event in events.Scalars(tag)}
        for tag in events.Tags()["scalars"]
    }


def trackio_metrics(folder: Path) -> Found:
    found: Found = defaultdict(dict)
    with sqlite3.connect(folder / "deeploop.db") as database:
        rows = database.execute("select run_name, step, metrics from metrics").fetchall()
    assert {name for name, _, _ in rows} == {"train_lm"}
    for _, step, values in rows:
        for metric, value in json.loads(values).items():
            found[metric][step] = value
    return found


def wandb_history(folder: Path) -> Found:
    from wandb.proto.wandb_internal_pb2 import Record

    found: Found = defaultdict(dict)
    attempts = list(folder.glob("wandb/offline-run-*-train_lm/run-train_lm.wandb"))
    assert len(attempts) == 2
    for path in attempts:
        for data in leveldb_records(path.read_bytes()):
            record = Record.FromString(data)
            for item in record.history.item:
                metric = item.key or item.nested_key[0]
                found[metric][record.history.step.num] = json.loads(item.value_json)
    return found


def leveldb_records(log: bytes) -> Iterator[bytes]:
    """Yield the records of a LevelDB log, which wandb's files are behind a header of 7 bytes."""
    block, header, whole_or_last = 32768, 7, (1, 4)
    place, record = header, b""
    while place + header <= len(log):
        if block - place % block < header:
            place += block - place % block
            continue
        size, kind = struct.unpack_from("<HB", log, place + 4)
        record += log[place + header : place + header + size]
        place += header + size
        if kind in whole_or_last:
            yield record
            record = b""


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
