from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import deeploop
from deeploop.errors import UserError
from deeploop.nn.folder import describe
from tests.evaluation.models import make_model


def test_a_folder_is_opened_as_it_was_written(tmp_path: Path) -> None:
    written = make_model(tmp_path)
    opened = deeploop.load(tmp_path)
    assert opened.config == written.config and not opened.training
    tokens = torch.arange(9)[None]
    assert torch.equal(opened.logits(tokens), written.logits(tokens))


def test_a_snapshot_of_the_folder_can_be_asked_for(tmp_path: Path) -> None:
    make_model(tmp_path, seed=1)
    early = make_model(tmp_path / "early", seed=2)
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "early/model.safetensors").rename(tmp_path / "snapshots/step-5.safetensors")
    opened = deeploop.load(tmp_path, weights="snapshots/step-5.safetensors")
    assert torch.equal(opened.embedding, early.embedding)


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, deeploop; assert 'torch' not in sys.modules; deeploop.load"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_wrong_with_a_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no model folder"):
        deeploop.load(tmp_path / "nowhere")
    make_model(tmp_path)
    description = json.loads((tmp_path / "model.json").read_text())
    description["config"]["backbone"]["hidden_size"] = 64
    (tmp_path / "model.json").write_text(json.dumps(description))
    with pytest.raises(UserError, match="does not fit the model's configuration: size mismatch"):
        deeploop.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"short")
    with pytest.raises(UserError, match="not a whole safetensors file"):
        deeploop.load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors"):
        deeploop.load(tmp_path)
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(UserError, match="does not describe a looped GPT"):
        describe(tmp_path)
