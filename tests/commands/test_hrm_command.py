from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.puzzles import Pair, Puzzle, PuzzleSet
from deeploop.commands import hrm
from deeploop.errors import UserError
from deeploop.nn.hrm import HRM, initialise
from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.hrm_weights import load_model
from tests.training.plain_reference import SMALL, record, write_reference


def command(*arguments: str | Path) -> int:
    parser = argparse.ArgumentParser()
    hrm.configure(parser)
    return hrm.main(parser.parse_args([str(argument) for argument in arguments]))


def test_check_prints_the_largest_deviation_of_each_quantity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = record(SMALL)
    path = write_reference(tmp_path / "reference.safetensors", tensors, SMALL)
    assert command("check", path) == 0
    printed = capsys.readouterr().out
    for quantity in ("loss", "logits", "carry.z_H", "grad", "after", "metric.accuracy"):
        assert f"\n{quantity} " in printed
    assert "0 beyond their limit" in printed


def test_check_fails_above_the_tolerance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = record(SMALL)
    tensors["step1.logits"] = tensors["step1.logits"] * 1.0001
    path = write_reference(tmp_path / "reference.safetensors", tensors, SMALL)
    assert command("check", path) == 1
    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith("logits"))
    assert "FAILS" in line and "1.00e-04" in line and line.endswith("step1.logits")
    assert command("check", path, "--json") == 1
    rows = json.loads(capsys.readouterr().out)
    assert [row["tensor"] for row in rows if not row["holds"]] == ["step1.logits"]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A small checkpoint as the published code saves it, compiled."""
    shape = {"sequence_length": 9, "vocab_size": 12, "identifiers": 6, "hidden_size": 16}
    config = HRMConfig(**shape, heads=2, puzzle_embedding_size=16, h_layers=2, l_layers=1)
    model = HRM(config)
    initialise(model, 0)
    weights = {f"_orig_mod.model.inner.{name}": v for name, v in model.state_dict().items()}
    torch.save(weights, tmp_path / "step_1")
    return tmp_path / "step_1"


SETTINGS = ("--heads", "2", "--sequence-length", "9")


def test_import_writes_a_model_folder(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "identifiers.json"
    names.write_text(json.dumps(["<blank>", "a", "b", "c", "d", "e"]))
    out = tmp_path / "model"
    arguments = ("import", checkpoint, "--out", out, *SETTINGS, "--identifiers", names)
    assert command(*arguments) == 0
    assert "6 puzzle identifiers" in capsys.readouterr().out
    config = load_model(out).config
    assert (config.h_layers, config.l_layers, config.precision) == (2, 1, "bf16")
    assert config.halt_max_steps == 16


def test_import_without_a_folder_only_checks(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(tmp_path.iterdir())
    assert command("import", checkpoint, *SETTINGS) == 0
    assert "6 puzzle identifiers" in capsys.readouterr().out
    assert set(tmp_path.iterdir()) == before


def test_import_checks_against_a_build(checkpoint: Path, tmp_path: Path) -> None:
    pair = Pair(np.ones((2, 2), np.uint8), np.ones((2, 2), np.uint8))
    for number in (5, 4):
        puzzles = tuple(Puzzle(f"p{n}", (pair,), (pair,), file=f"p{n}.json") for n in range(number))
        plan = make_plan([PuzzleSet("evaluation", puzzles)], PlanSettings(0, grid_size=3))
        plan.save(tmp_path)
        arguments = ("import", checkpoint, "--heads", "2", "--build", tmp_path)
        if number == 5:
            assert command(*arguments) == 0
        else:
            with pytest.raises(UserError, match=r"expected \[5, 16\].*same settings"):
                command(*arguments)


def test_import_explains_another_number_of_identifiers(checkpoint: Path, tmp_path: Path) -> None:
    names = tmp_path / "identifiers.json"
    names.write_text('["<blank>", "a"]')
    out = tmp_path / "model"
    with pytest.raises(UserError, match=r"is \[6, 16\], expected \[2, 16\].*same settings"):
        command("import", checkpoint, "--out", out, *SETTINGS, "--identifiers", names)
    assert not out.exists()
    names.write_text('{"a": 1}')
    with pytest.raises(UserError, match="expected a JSON list"):
        command("import", checkpoint, "--out", out, *SETTINGS, "--identifiers", names)


def test_import_refuses_settings_that_do_not_fit(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="heads must divide"):
        command("import", checkpoint, "--out", tmp_path / "model", "--heads", "3")
    with pytest.raises(UserError, match="no-such-file"):
        command("import", tmp_path / "no-such-file", "--out", tmp_path / "model")
