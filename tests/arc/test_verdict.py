from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from deeploop.arc.identifiers import Identifiers
from deeploop.arc.plan import ArcPlan, PlanSettings, make_plan
from deeploop.arc.puzzles import PuzzleSet
from deeploop.arc.verdict import SHOWN, decide
from deeploop.errors import BuildError
from tests.arc.made_up_votes import made_up_predictions, save, take


@pytest.fixture
def plan(sets: list[PuzzleSet], tmp_path: Path) -> ArcPlan:
    plan = make_plan(sets, PlanSettings(60, grid_size=8))
    (tmp_path / "plan").mkdir()
    plan.save(tmp_path / "plan")
    return plan


def test_outputs_are_the_same_bytes_for_any_order_of_rows(plan: ArcPlan, tmp_path: Path) -> None:
    columns = made_up_predictions(plan, 1)
    order = np.random.default_rng(0).permutation(len(columns["preds"]))
    for name, rows in (("one", np.arange(len(order))), ("two", order)):
        (tmp_path / name).mkdir()
        path = save(take(columns, rows), tmp_path / f"{name}.parquet")
        metrics = decide(path, tmp_path / "plan", tmp_path / name, "hash")
        assert json.loads((tmp_path / name / "metrics.json").read_text()) == metrics
        assert list(metrics) == ["votes", "per_test", "puzzles", "tests", "ties"]
        assert list(metrics["votes"]) == ["1", "2", "10", "100", "1000"]
    for name in ("metrics.json", "top_votes.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_first_candidates_are_kept_with_their_grids(
    plan: ArcPlan, sets: list[PuzzleSet], tmp_path: Path
) -> None:
    columns = made_up_predictions(plan, 2)
    decide(save(columns, tmp_path / "p.parquet"), tmp_path / "plan", tmp_path, "hash")
    votes = pl.read_parquet(tmp_path / "top_votes.parquet")
    labels = {
        (puzzle.name, number): pair.output
        for one in sets
        if one.held_out
        for puzzle in one.puzzles
        for number, pair in enumerate(puzzle.test)
    }
    assert set(votes.select("puzzle", "test").iter_rows()) == set(labels)
    assert votes["right"].sum() > 0
    for row in votes.iter_rows(named=True):
        grid = np.frombuffer(row["grid"], np.uint8).reshape(row["height"], row["width"])
        assert np.array_equal(grid, labels[row["puzzle"], row["test"]]) == row["right"]
    for _, test in votes.group_by("puzzle", "test"):
        assert test["rank"].to_list() == list(range(1, len(test) + 1)) and len(test) <= SHOWN
        assert test["votes"].is_sorted(descending=True)


def test_predictions_that_lack_a_test_or_are_of_another_data_set_are_refused(
    plan: ArcPlan, sets: list[PuzzleSet], tmp_path: Path
) -> None:
    columns = made_up_predictions(plan, 0)
    puzzles = Identifiers.of_plan(plan).puzzles[columns["puzzle_identifiers"]]
    path = save(take(columns, np.flatnonzero(puzzles == puzzles[0])), tmp_path / "p.parquet")
    with pytest.raises(BuildError, match=r"predictions have no rows for \d test\(s\).*, as of b"):
        decide(path, tmp_path / "plan", tmp_path, "hash")
    assert not (tmp_path / "metrics.json").exists()


def test_an_answer_to_no_test_of_the_data_set_is_refused(plan: ArcPlan, tmp_path: Path) -> None:
    columns = made_up_predictions(plan, 0)
    names = Identifiers.of_plan(plan)
    plain = np.flatnonzero(~names.augmented[columns["puzzle_identifiers"]])[:1]
    extra = {name: array[plain].copy() for name, array in columns.items()}
    extra["inputs"][0, 0] = 1  # an empty input, which no puzzle has
    columns = {name: np.concatenate([columns[name], extra[name]]) for name in columns}
    with pytest.raises(BuildError, match=r"answer what is not 1 test\(s\) of the data set"):
        decide(save(columns, tmp_path / "p.parquet"), tmp_path / "plan", tmp_path, "hash")
