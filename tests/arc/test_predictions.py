from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.predictions import read_batches, write_predictions
from deeploop.arc.puzzles import PuzzleSet
from deeploop.arc.rows import ArcRows
from deeploop.errors import UserError
from tests.arc.made_up_votes import made_up_predictions, save, take

Columns = dict[str, np.ndarray]


@pytest.fixture
def columns(sets: list[PuzzleSet]) -> Columns:
    return made_up_predictions(make_plan(sets, PlanSettings(5, grid_size=8)), seed=0)


@pytest.mark.parametrize("form", ["binary", "array", "int32", "int64"])
def test_tokens_are_read_in_whatever_form_they_are_kept(
    columns: Columns, tmp_path: Path, form: str
) -> None:
    [batch] = read_batches(save(columns, tmp_path / "p.parquet", form))
    for name, array in columns.items():
        assert np.array_equal(batch[name].to_numpy(), array), name


def test_what_a_prediction_stage_writes_is_complete_and_deterministic(
    sets: list[PuzzleSet], columns: Columns, tmp_path: Path
) -> None:
    rows = ArcRows(make_plan(sets, PlanSettings(5, grid_size=8)), "test")
    for name in ("one", "two"):
        write_predictions(tmp_path / name, rows, columns["preds"], columns["q_halt_logits"])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    [batch] = read_batches(tmp_path / "one")
    for name, array in columns.items():
        assert np.array_equal(batch[name].to_numpy(), array), name
    with pytest.raises(ValueError, match="predictions"):
        write_predictions(tmp_path / "x", rows, columns["preds"][:-1], columns["q_halt_logits"])


def with_column(columns: Columns, name: str, value: Any) -> pl.DataFrame:
    frame = pl.DataFrame({n: pl.Series(array) for n, array in columns.items()})
    return frame.with_columns(pl.Series(name, value, strict=False))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("preds", [[1.0] * 64], "tokens are binary or lists of integers, not List"),
        ("preds", ["x" * 64], "tokens are binary or lists of integers, not String"),
        ("preds", [[1] * 63], "each row needs the tokens of one square of at most 30 x 30"),
        ("preds", [[1] * 64, [1] * 49], "each row needs the tokens of one square"),
        ("inputs", [[1] * 961], "at most 30 x 30"),
        ("inputs", [[300] * 64], "not a readable table of predictions"),
        ("labels", [None, [1] * 64], "column labels has missing or NaN values"),
        ("q_halt_logits", [float("nan")], "column q_halt_logits has missing or NaN values"),
        ("puzzle_identifiers", [1.5], "column puzzle_identifiers must hold integers"),
    ],
)
def test_columns_of_another_kind_are_refused(
    columns: Columns, tmp_path: Path, name: str, value: list[Any], message: str
) -> None:
    count = len(value)
    path = tmp_path / "p.parquet"
    with_column(take(columns, np.arange(count)), name, value).write_parquet(path)
    with pytest.raises(UserError, match=rf"p\.parquet: .*{message}"):
        list(read_batches(path))


def test_what_is_no_such_table_is_refused(columns: Columns, tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    with pytest.raises(UserError, match="not a readable table of predictions"):
        list(read_batches(path))
    path.write_bytes(b"no table")
    with pytest.raises(UserError, match="not a readable table of predictions"):
        list(read_batches(path))
    pl.DataFrame({"preds": [1]}).write_parquet(path)
    with pytest.raises(UserError, match="no column puzzle_identifiers, inputs, labels, q_halt"):
        list(read_batches(path))
