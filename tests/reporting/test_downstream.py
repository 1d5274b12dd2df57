from __future__ import annotations

import json
from math import sqrt
from pathlib import Path

import pytest

from deeploop.reporting.downstream_table import downstream_table, exhibit
from deeploop.reporting.published import AVERAGE, published
from deeploop.reporting.runs import PlacedRun
from tests.reporting.synthetic import write_evaluation

TASKS = published().downstream.tasks


def run(
    root: Path, rule: str, loops: int, seed: int, share: float, backbone: str = "medium"
) -> PlacedRun:
    folder = root / f"{backbone}-{rule}-{loops}-{seed}"
    write_evaluation(folder, {s: dict.fromkeys(TASKS, share) for s in (0, 1)}, n=100)
    cell = {"backbone": backbone, "scaling": rule, "loops": loops, "seed": seed}
    return PlacedRun(f"evaluate_lm/{folder.name}", cell, folder)


def test_rows_are_the_papers_whatever_the_plans_order(tmp_path: Path) -> None:
    runs = [run(tmp_path, rule, r, 0, 0.5) for rule in ("deeploop", "base") for r in (3, 1)]
    zero, one = (exhibit("table2", downstream_table(runs, "medium"), ()).table or _fail()).groups
    assert (zero.label, one.label) == ("0-shot", "1-shot")
    labels = [row.label.replace("\u00a0", " ") for row in zero.rows]
    assert labels == ["base R = 1", "base R = 3", "DeepLoop R = 1", "DeepLoop R = 3", "guessing"]


def _fail() -> None:
    raise AssertionError("there is no table")


def test_published_and_difference_stand_beside_each_cell(tmp_path: Path) -> None:
    found = downstream_table([run(tmp_path, "base", 1, 0, 0.5)], "medium")
    cell = found.cells[("medium", "base", 1), 0, "arc_easy"]
    assert (cell.published, cell.difference) == (65.24, pytest.approx(50 - 65.24))
    assert found.cells[("medium", "base", 1), 0, AVERAGE].published == 50.86


def test_the_average_and_its_error_are_of_the_eight_tasks(tmp_path: Path) -> None:
    found = downstream_table([run(tmp_path, "base", 1, 0, 0.36)], "medium")
    (sample,) = found.cells[("medium", "base", 1), 1, AVERAGE].samples
    assert sample.value == pytest.approx(36.0)
    assert sample.stderr == pytest.approx(100 * sqrt(0.36 * 0.64 / 100) / sqrt(8))


def test_guessing_gets_what_the_numbers_of_choices_say(tmp_path: Path) -> None:
    found = downstream_table([run(tmp_path, "base", 1, 0, 0.3)], "medium")
    assert found.chance("winogrande") == 50.0
    assert found.chance(AVERAGE) == pytest.approx((5 * 25 + 2 * 50 + 100 / 3) / 8)
    (finding,) = exhibit("table2", found, ()).findings
    assert "guessing gets 32.29" in finding
    assert "0 of 2 averages are more than two standard errors above" in finding


def test_an_unknown_task_has_a_column_and_no_level_of_guessing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_evaluation(folder, {0: {"arc_easy": 0.5, "riddles": 0.25}}, n=10)
    cell = {"backbone": "medium", "scaling": "base", "loops": 1, "seed": 0}
    found = downstream_table([PlacedRun("evaluate_lm/run", cell, folder)], "medium")
    assert found.columns == ("arc_easy", "riddles", AVERAGE)
    assert found.chance(AVERAGE) is None
    assert exhibit("table2", found, ()).findings == ()


def test_a_backbone_of_ours_stands_beside_the_one_that_is_asked_for(tmp_path: Path) -> None:
    found = downstream_table([run(tmp_path, "base", 1, 0, 0.3, backbone="tiny")], "small")
    assert found.cells[("tiny", "base", 1), 0, AVERAGE].published == 46.25
    assert any("GPT-2 small" in note for note in exhibit("table4", found, ()).notes)


def test_notes_say_where_the_questions_came_from(tmp_path: Path) -> None:
    (note, *_) = exhibit(
        "table2", downstream_table([run(tmp_path, "base", 1, 0, 0.3)], "medium"), ()
    ).notes
    assert "they were written for this project" in note


def test_a_training_that_diverged_leaves_its_cells_without_numbers(tmp_path: Path) -> None:
    found = run(tmp_path, "base", 1, 0, 0.3)
    shots = {"0": {task: {"acc": None, "stderr": None, "n": 0} for task in TASKS}}
    (found.folder / "metrics.json").write_text(json.dumps({"shots": shots, "source": "hub"}))
    table = downstream_table([found], "medium")
    (sample,) = table.cells[("medium", "base", 1), 0, AVERAGE].samples
    assert sample.value is None
    (note,) = exhibit("table2", table, ()).notes
    assert "official" in note
