"""The vote on a planned data set: its metrics, and the first candidates with their grids."""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from deeploop.arc.grids import crop, undo_augmentation
from deeploop.arc.identifiers import Identifiers
from deeploop.arc.plan import ArcPlan
from deeploop.arc.predictions import read_rows
from deeploop.arc.rows import ArcRows
from deeploop.arc.vote import TEST, Ties, Vote, hash_tokens, vote
from deeploop.errors import BuildError
from deeploop.fileio import dump_json

METRICS_FILE = "metrics.json"
VOTES_FILE = "top_votes.parquet"
SHOWN = 10
"""Candidates a test that are kept to be looked at."""


def planned_tests(rows: ArcRows, identifiers: Identifiers) -> pl.DataFrame:
    """Return the tests of a data set: `puzzle` (index), `number` in its file, hash of the input."""
    plain = np.flatnonzero(~identifiers.augmented[rows.puzzle_identifiers])
    firsts, ends = rows.puzzle_indices[plain], rows.puzzle_indices[plain + 1]
    where = np.concatenate([np.arange(a, b) for a, b in zip(firsts, ends, strict=True)])
    inputs, _, which = rows.render(where)
    hashes = hash_tokens(inputs, identifiers, which, side=0)
    return pl.DataFrame(
        {
            "puzzle": identifiers.puzzles[which],
            "number": where - np.repeat(firsts, ends - firsts),
            "inputs_low": hashes[:, 0],
            "inputs_high": hashes[:, 1],
        }
    )


def original_grid(tokens: np.ndarray, identifiers: Identifiers, which: int) -> np.ndarray:
    """Return the grid in `tokens` [T], the augmentation of identifier `which` undone."""
    grid = crop(tokens, isqrt(len(tokens)))
    return undo_augmentation(grid, int(identifiers.symmetries[which]), identifiers.colours[which])


def top_votes(
    path: Path, voted: Vote, planned: pl.DataFrame, identifiers: Identifiers
) -> pl.DataFrame:
    """Return the first candidates of each test, by puzzle, test and rank.

    Columns: `puzzle` (name), `test` (number in its file, from 0), `rank` (from 1), `votes`,
    `probability` (mean, of halting), `tied` (candidates as good, this one included), `right`,
    `height`, `width` and `grid` (binary, a byte a cell, row-major).
    """
    tests = voted.tests.join(planned, on=TEST).select("test", "puzzle", "number")
    first = voted.candidates.filter(pl.col("rank") < SHOWN)
    rows = read_rows(path, ["puzzle_identifiers", "preds"], first["row"])
    grids = [
        original_grid(tokens, identifiers, which)
        for tokens, which in zip(rows["preds"].to_numpy(), rows["puzzle_identifiers"], strict=True)
    ]
    rows = rows.select(
        "row",
        height=pl.Series([grid.shape[0] for grid in grids], dtype=pl.Int64),
        width=pl.Series([grid.shape[1] for grid in grids], dtype=pl.Int64),
        grid=pl.Series([grid.tobytes() for grid in grids], dtype=pl.Binary),
    )
    names = pl.DataFrame({"name": identifiers.puzzle_names}).with_row_index("puzzle")
    names = names.with_columns(pl.col("puzzle").cast(pl.Int64))
    return (
        first.join(tests, on="test").join(names, on="puzzle").join(rows, on="row")
        .select(
            pl.col("name").alias("puzzle"), pl.col("number").alias("test"), pl.col("rank") + 1,
            "votes", "probability", "tied", "right", "height", "width", "grid",
        )
        .sort("puzzle", "test", "rank")
    )  # fmt: skip


def check_complete(voted: Vote, planned: pl.DataFrame, identifiers: Identifiers) -> None:
    """Check that the predictions answer every test of the data set, and no other.

    Raises:
        BuildError: when they do not.
    """
    for these, others, what in (
        (planned, voted.tests, "have no rows for"),
        (voted.tests, planned, "answer what is not"),
    ):
        odd = these.join(others, on=TEST, how="anti").sort(TEST)
        if len(odd):
            name = identifiers.puzzle_names[odd["puzzle"][0]]
            raise BuildError(f"predictions {what} {len(odd)} test(s) of the data set, as of {name}")


def decide(predictions: Path, dataset: Path, folder: Path, ties: Ties) -> dict[str, Any]:
    """Vote on the tests of a planned data set; write metrics and first candidates to `folder`.

    Args:
        predictions: a file as `deeploop.arc.predictions` describes.
        dataset: the folder of the plan.
        folder: where `metrics.json` and `top_votes.parquet` go.
        ties: see `deeploop.arc.vote`.

    Returns:
        The metrics.

    Raises:
        UserError: when the file is not valid.
        BuildError: when it does not answer the tests of the data set.
    """
    plan = ArcPlan.load(dataset)
    identifiers = Identifiers.of_plan(plan)
    voted = vote(predictions, identifiers, ties)
    planned = planned_tests(ArcRows(plan, "test"), identifiers)
    check_complete(voted, planned, identifiers)
    metrics = voted.scores.as_dict()
    (folder / METRICS_FILE).write_text(dump_json(metrics))
    votes = top_votes(predictions, voted, planned, identifiers)
    votes.write_parquet(folder / VOTES_FILE, compression="zstd", statistics=False)
    return metrics
