from __future__ import annotations

import json
from pathlib import Path

import pytest

from deeploop.cli import main
from deeploop.evaluation.sources import SAMPLES
from tests.evaluation.models import make_model

QUICK = ["--limit", "3", "--tasks", "piqa,sciq", "--device", "cpu"]


def test_models_are_evaluated_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, name in enumerate(("a", "b")):
        make_model(tmp_path / name, seed=seed)
    models, out = [str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "out"
    assert main(["evaluate", *models, "--samples", "--out", str(out), *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "average" in shown
    assert "source: samples, fp32" in shown
    alone = tmp_path / "alone"
    mirror = ["--mirror", str(SAMPLES), "--shots", "1"]
    assert main(["evaluate", models[0], *mirror, "--out", str(alone), *QUICK]) == 0
    both, one = (json.loads((f / "metrics.json").read_text()) for f in (out / "a", alone))
    assert both["shots"]["1"] == one["shots"]["1"]
    assert (one["source"], list(one["shots"])) == ("mirror", ["1"])
    assert sorted(path.name for path in alone.iterdir()) == ["metrics.json", "samples.parquet"]
    capsys.readouterr()
    assert main(["compare", str(out / "a"), str(out / "b")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["piqa", "0"],
        ["piqa", "1"],
        ["sciq", "0"],
        ["sciq", "1"],
        ["average", "0"],
        ["average", "1"],
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mirror", "nowhere"], "nowhere has no folder 'piqa'"),
        (["--samples", "--shots", "one"], "the options do not make an evaluation"),
        (["--samples", "--batch-tokens", "0"], "the options do not make an evaluation"),
        (["--samples", "--tasks", "piqua"], "did you mean 'piqa'?"),
        (["--samples"], "is no model folder: no model.json"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    out = tmp_path / "out"
    assert main(["evaluate", str(tmp_path), "--out", str(out), *QUICK, *options]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1
    assert not out.exists()
