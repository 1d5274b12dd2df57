"""`deeploop sample` and `deeploop export`."""

from __future__ import annotations

from pathlib import Path

import pytest

from deeploop.cli import main
from tests.evaluation.models import make_model


def test_sample_goes_on_with_a_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_model(tmp_path, context_length=40)
    texts = []
    for options in (["--tokens", "8"], ["--temperature", "1", "--top-k", "200"], []):
        assert main(["sample", str(tmp_path), "--prompt", "def main", *options]) == 0
        texts.append(capsys.readouterr().out)
    assert all(text.startswith("def main") for text in texts)
    assert texts[1] != texts[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tokens", "50"], "exceed the model's context of 40"),
        (["--temperature", "-1"], "--temperature is 0 or more"),
    ],
)
def test_sample_says_what_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    make_model(tmp_path, context_length=40)
    assert main(["sample", str(tmp_path), "--prompt", "x", *options]) == 2
    assert message in capsys.readouterr().err


def test_export_writes_a_folder_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    make_model(tmp_path / "ours")
    command = ["export", str(tmp_path / "ours"), str(tmp_path / "theirs")]
    assert main(command) == 0
    assert {"config.json", "model.safetensors"} <= {f.name for f in (tmp_path / "theirs").iterdir()}
    assert main(command) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["export", str(tmp_path), str(tmp_path / "new")]) == 2
    assert "is no model folder" in capsys.readouterr().err
