from __future__ import annotations

import json
from pathlib import Path

import pytest

from deeploop.arc.files import render_files
from deeploop.arc.identifiers import identifier_names
from deeploop.arc.plan import ArcPlan, PlanSettings, make_plan
from deeploop.arc.puzzles import in_order
from deeploop.arc.verdict import decide
from deeploop.cli import main
from deeploop.commands import arc
from tests.arc.made_up import made_up_sets, made_up_values, write_sets
from tests.arc.made_up_votes import made_up_predictions, save


def test_export_writes_thirteen_files_and_prints_their_digests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = [
        str(write_sets(tmp_path / name, {name: files}))
        for name, files in sorted(made_up_values().items())
    ]
    arguments = ["arc", "export", "--augmentations", "6", "--seed", "3", "--order", "reversed"]
    assert main([*arguments, "--raw", *raw, "--out", str(tmp_path / "out")]) == 0
    printed = dict(reversed(line.split("  ")) for line in capsys.readouterr().out.splitlines())
    ordered = [one for single in made_up_sets() for one in in_order([single], "reversed")]
    assert printed == render_files(make_plan(ordered, PlanSettings(6, seed=3))).files
    assert sum(path.is_file() for path in (tmp_path / "out").rglob("*")) == 13


def test_export_with_a_bad_puzzle_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = write_sets(tmp_path / "raw", {"training": {"a.json": {"train": []}, "b.json": b"no"}})
    arguments = ["arc", "export", "--raw", str(raw), "--augmentations", "1"]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "a.json: train: missing" in error and "b.json: line 1, column 1: not JSON" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [["--augmentations", "-1"], ["--seed", "4294967296"], ["--grid-size", "31"], ["--order", "x"]],
)
def test_wrong_numbers_are_refused(change: list[str]) -> None:
    arguments = ["arc", "export", "--raw", "x", "--augmentations", "1", "--out", "y", *change]
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2


@pytest.fixture
def plan(tmp_path: Path) -> ArcPlan:
    plan = make_plan(made_up_sets(), PlanSettings(30, grid_size=8))
    (tmp_path / "plan").mkdir()
    plan.save(tmp_path / "plan")
    (tmp_path / "ids.json").write_text(json.dumps(identifier_names(plan)))
    return plan


def test_score_prints_a_table_or_json(
    plan: ArcPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(made_up_predictions(plan, 1), tmp_path / "p.parquet", "int32")
    expected = decide(path, tmp_path / "plan", tmp_path, "hash")
    arguments = ["arc", "score", str(path), "--identifiers", str(tmp_path / "ids.json")]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == expected
    assert main(arguments) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["K", "puzzles", "tests", "ties"]
    for line, k in zip(table[1:6], ("1", "2", "10", "100", "1000"), strict=True):
        found = [k, f"{expected['votes'][k]:.2%}", f"{expected['per_test'][k]:.2%}"]
        assert line.split() == [*found, str(expected["ties"][k])]


def test_score_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "no.parquet")
    assert main(["arc", "score", missing, "--identifiers", missing]) == 2
    assert "no.parquet: not a readable identifiers.json" in capsys.readouterr().err


def test_show_draws_a_real_puzzle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.png"
    assert main(["arc", "show", "007bbfb7", "--augmentations", "1", "--out", str(path)]) == 0
    printed = capsys.readouterr().out
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "0 7 7" in printed and "augmentation 1: symmetry" in printed
    assert main(["arc", "show", "007bbfb8", "--out", str(tmp_path / "y.png")]) == 2
    assert "no puzzle '007bbfb8'" in capsys.readouterr().err
    assert not (tmp_path / "y.png").exists()


def test_show_draws_the_votes_of_a_run(
    plan: ArcPlan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    decide(
        save(made_up_predictions(plan, 1, right=0.9), tmp_path / "p.parquet"),
        tmp_path / "plan",
        tmp_path,
        "hash",
    )
    monkeypatch.setattr(arc, "_run_folders", lambda args: (tmp_path / "plan", tmp_path))
    out = str(tmp_path / "x.png")
    assert main(["arc", "show", "b1", "--run", "hrm", "--out", out]) == 0
    printed = capsys.readouterr().out
    assert "votes on test 0" in printed and "votes on test 1" in printed and "right" in printed
    assert main(["arc", "show", "b9", "--run", "hrm", "--out", out]) == 2
    assert "no puzzle 'b9' in the data set of hrm; there is b2, b1" in capsys.readouterr().err


def test_show_of_a_run_that_does_not_exist_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["arc", "show", "x", "--run", "no-such-run", "--suite", "smoke"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("deeploop: ") and error.count("\n") == 1
