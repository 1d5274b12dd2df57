"""The vote over augmentations: which grids are the answers to a test, and what they score.

Every row's prediction is cropped and its augmentation undone. Equal grids are one candidate; the
candidates of a test are ranked by their number of votes, then by mean halting probability. A test
is right at K when its label is among the first K, a puzzle when all its tests are (HRM's
`arc_eval.ipynb`). The ARC Prize counts tests instead.

Candidates that are equal in both are ordered by a hash of the grid, so that the result does not
depend on the order of rows; for the same reason halting probabilities are summed as integers. HRM
keeps the order in which rows came; `ties="first_seen"` does so, for comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from deeploop.arc.identifiers import Identifiers
from deeploop.arc.kernels.hashing import hash_tables
from deeploop.arc.kernels.votes import original_hashes
from deeploop.arc.predictions import read_batches
from deeploop.errors import UserError

KS = (1, 2, 10, 100, 1000)
Ties = Literal["hash", "first_seen"]
PROBABILITY_UNIT = 2.0**-44
"""Halting probabilities are summed in whole units of this: exact for up to half a million votes."""
TEST = ["puzzle", "inputs_low", "inputs_high"]
"""Columns that tell tests apart."""


@dataclass(frozen=True)
class Scores:
    """What a vote scores, by K, as fractions."""

    votes: Mapping[int, float]
    """Puzzles with all tests right."""
    per_test: Mapping[int, float]
    """Tests right (ARC Prize)."""
    puzzles: int
    tests: int
    ties: Mapping[int, int]
    """Tests whose label is tied with other candidates across the K-th place."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, with K as text."""

        def by_k(values: Mapping[int, float]) -> dict[str, float]:
            return {str(k): value for k, value in values.items()}

        return {
            "votes": by_k(self.votes),
            "per_test": by_k(self.per_test),
            "puzzles": self.puzzles,
            "tests": self.tests,
            "ties": by_k(self.ties),
        }


@dataclass(frozen=True, eq=False)
class Vote:
    """Ranked candidates and what they score."""

    scores: Scores
    tests: pl.DataFrame
    """See `read_tests`."""
    candidates: pl.DataFrame
    """See `rank_candidates`; with `right`."""


def hash_tokens(
    tokens: np.ndarray, identifiers: Identifiers, which: np.ndarray, side: int
) -> np.ndarray:
    """Return uint64 [n, 2], hashes of the grids in `tokens` [n, T] with augmentation undone.

    `which` [n] are their puzzle identifiers; `side` is 0 for inputs, 1 for labels and predictions.
    """
    hashes = np.empty((len(tokens), 2), np.uint64)
    original_hashes(
        tokens, identifiers.symmetries[which], identifiers.colours[which],
        side, hash_tables(), isqrt(tokens.shape[1]), hashes,
    )  # fmt: skip
    return hashes


def read_ballots(path: Path, identifiers: Identifiers) -> pl.DataFrame:
    """Return one line a row of predictions, without those that only fill batches.

    Columns: `row` (number in the file), `puzzle` (index), `logit`, and the hashes of the input and
    of the prediction: `inputs_low`, `inputs_high`, `preds_low`, `preds_high`.

    Raises:
        UserError: when the table is not valid, is empty, or has identifiers that do not exist.
    """
    frames, first = [], 0
    for batch in read_batches(path, ["puzzle_identifiers", "inputs", "preds", "q_halt_logits"]):
        which = _identifiers_in(batch, identifiers, path)
        numbered = _hashed(batch, which, identifiers, ("inputs", "preds")).with_columns(
            logit=batch["q_halt_logits"].cast(pl.Float64),
            row=pl.int_range(first, first + len(batch), dtype=pl.Int64, eager=True),
        )
        frames.append(numbered.filter(pl.Series(which != 0)))
        first += len(batch)
    if not sum(map(len, frames)):
        raise UserError(f"{path}: no predictions (rows with puzzle identifier 0 do not count)")
    return pl.concat(frames)


def _identifiers_in(batch: pl.DataFrame, identifiers: Identifiers, path: Path) -> np.ndarray:
    which = batch["puzzle_identifiers"].cast(pl.Int64).to_numpy()
    last = len(identifiers.puzzles) - 1
    if which.size and not 0 <= which.min() <= which.max() <= last:
        raise UserError(
            f"{path}: puzzle identifiers {which.min()} to {which.max()}, but the data set has 1 to "
            f"{last}: these are not the identifiers the predictions were made with"
        )
    return which


def _hashed(
    batch: pl.DataFrame, which: np.ndarray, identifiers: Identifiers, columns: Sequence[str]
) -> pl.DataFrame:
    """Return `puzzle` and both lanes of the hashes of the grids in token columns."""
    hashed = {"puzzle": identifiers.puzzles[which]}
    for name in columns:
        side = 0 if name == "inputs" else 1
        hashes = hash_tokens(batch[name].to_numpy(), identifiers, which, side)
        hashed |= {f"{name}_low": hashes[:, 0], f"{name}_high": hashes[:, 1]}
    return pl.DataFrame(hashed)


def read_tests(path: Path, identifiers: Identifiers) -> pl.DataFrame:
    """Return the tests, as the un-augmented rows of predictions give them.

    Columns: `test` (number, by puzzle and hash), `puzzle` (index), `inputs_low`, `inputs_high`,
    `labels_low`, `labels_high`.

    Raises:
        UserError: when a test has two labels.
    """
    columns = ["puzzle_identifiers", "inputs", "labels"]
    plain = np.flatnonzero(~identifiers.augmented)[1:].tolist()
    rows = [
        _hashed(batch, _identifiers_in(batch, identifiers, path), identifiers, columns[1:])
        for batch in read_batches(path, columns, plain)
    ]
    if not rows:
        raise UserError(f"{path}: no un-augmented rows, which say what the tests are")
    tests = pl.concat(rows).unique().sort(TEST)
    twice = tests.filter(tests.select(TEST).is_duplicated())
    if len(twice):
        name = identifiers.puzzle_names[twice["puzzle"][0]]
        raise UserError(f"puzzle {name}: un-augmented rows give one input different labels")
    return tests.with_columns(test=pl.int_range(pl.len(), dtype=pl.Int64))


def assign_tests(
    ballots: pl.DataFrame, tests: pl.DataFrame, identifiers: Identifiers
) -> pl.DataFrame:
    """Return the ballots with `test`, found by puzzle and un-augmented input.

    Raises:
        UserError: when a puzzle has no un-augmented rows, or a row's input is not that of a test.
    """
    without = ballots.select("puzzle").unique().join(tests, on="puzzle", how="anti").sort("puzzle")
    if len(without):
        names = ", ".join(identifiers.puzzle_names[puzzle] for puzzle in without["puzzle"][:5])
        raise UserError(f"{len(without)} puzzle(s) have no un-augmented rows: {names}")
    found = ballots.join(tests.select("test", *TEST), on=TEST, how="left", maintain_order="left")
    lost = found.filter(pl.col("test").is_null())
    if len(lost):
        name = identifiers.puzzle_names[lost["puzzle"][0]]
        raise UserError(
            f"{len(lost)} row(s) have inputs that are no test of their puzzle once augmentation is "
            f"undone; the first is row {lost['row'][0]}, of puzzle {name}"
        )
    return found


def halting_probability(logits: np.ndarray) -> np.ndarray:
    """Return the sigmoid, float64."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-logits))


def rank_candidates(ballots: pl.DataFrame, ties: Ties) -> pl.DataFrame:
    """Return one line for each candidate of each test, by rank.

    Args:
        ballots: with `test`.
        ties: what orders candidates with equal votes and equal mean probability.

    Returns:
        Columns `test`, `low`, `high` (hash of the grid), `votes`, `probability` (mean), `row`
        (first of them), `rank` (from 0), `above` (candidates that are strictly better) and `tied`
        (candidates as good, this one included).
    """
    probability = halting_probability(ballots["logit"].to_numpy())
    weights = pl.Series(np.rint(probability / PROBABILITY_UNIT).astype(np.int64))
    candidates = (
        ballots.with_columns(weight=weights)
        .group_by("test", low="preds_low", high="preds_high")
        .agg(votes=pl.len().cast(pl.Int64), weight=pl.col("weight").sum(), row=pl.col("row").min())
    )
    as_good = ["test", "votes", "weight"]
    order = [*as_good, *(["low", "high"] if ties == "hash" else ["row"])]
    candidates = candidates.sort(order, descending=[name in ("votes", "weight") for name in order])
    return (
        candidates.with_columns(rank=pl.int_range(pl.len(), dtype=pl.Int64).over("test"))
        .with_columns(
            above=pl.col("rank").min().over(as_good),
            tied=pl.len().cast(pl.Int64).over(as_good),
            probability=pl.col("weight") * PROBABILITY_UNIT / pl.col("votes"),
        )
        .drop("weight")
    )


def score(candidates: pl.DataFrame, tests: pl.DataFrame, ks: Sequence[int] = KS) -> Scores:
    """Return what ranked candidates (with `right`) score."""
    right = candidates.filter("right").select("test", "rank", "above", "tied")
    ranks = tests.select("test", "puzzle").join(right, on="test", how="left", maintain_order="left")
    worst = ranks.group_by("puzzle").agg(
        rank=pl.when(pl.col("rank").is_null().any()).then(None).otherwise(pl.col("rank").max())
    )
    straddles = {k: (pl.col("above") < k) & (pl.col("above") + pl.col("tied") > k) for k in ks}
    return Scores(
        votes={k: worst.filter(pl.col("rank") < k).height / len(worst) for k in ks},
        per_test={k: ranks.filter(pl.col("rank") < k).height / len(ranks) for k in ks},
        puzzles=len(worst),
        tests=len(ranks),
        ties={k: ranks.filter(straddles[k]).height for k in ks},
    )


def vote(path: Path, identifiers: Identifiers, ties: Ties = "hash") -> Vote:
    """Let the predictions in a file (see `deeploop.arc.predictions`) vote on their tests.

    Raises:
        UserError: when the file is not valid, or does not fit the identifiers.
    """
    ballots = read_ballots(path, identifiers)
    tests = read_tests(path, identifiers)
    candidates = rank_candidates(assign_tests(ballots, tests, identifiers), ties)
    labels = tests.select("test", low="labels_low", high="labels_high", right=True)
    candidates = candidates.join(
        labels, on=["test", "low", "high"], how="left", maintain_order="left"
    ).with_columns(pl.col("right").fill_null(False))
    return Vote(score(candidates, tests), tests, candidates)
