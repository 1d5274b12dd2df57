"""Predictions for made-up puzzles, and what a plain count of their votes gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from deeploop.arc.plan import ArcPlan
from deeploop.arc.rows import ArcRows

Columns = Mapping[str, np.ndarray]


def made_up_predictions(plan: ArcPlan, seed: int, right: float = 0.4) -> dict[str, np.ndarray]:
    """Return columns for all test rows; some predictions are right, many agree in their fault."""
    rng = np.random.default_rng(seed)
    rows = ArcRows(plan, "test")
    inputs, labels, identifiers = rows.render(np.arange(rows.count))
    preds = labels.copy()
    wrong = rng.random(rows.count) > right
    preds[wrong, 0] = rng.integers(0, 4, rows.count)[wrong]  # END and PAD in the corner, too
    shorter = rng.random(rows.count) < 0.2
    preds[shorter, rng.integers(0, 8)] = 1
    logits = rng.choice([-2.0, 0.0, 0.5, 3.0, 20.0], rows.count).astype(np.float32)
    return {
        "puzzle_identifiers": identifiers,
        "inputs": inputs,
        "labels": labels,
        "preds": preds,
        "q_halt_logits": logits,
    }


def take(columns: Columns, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: array[rows] for name, array in columns.items()}


def save(columns: Columns, path: Path, form: str = "binary") -> Path:
    """Write columns as a table; `form` is how tokens are kept."""

    def tokens(array: np.ndarray) -> pl.Series:
        if form == "binary":
            return pl.Series([row.tobytes() for row in array], dtype=pl.Binary)
        if form == "array":
            return pl.Series(array)
        return pl.Series(
            array.tolist(), dtype=pl.List({"int32": pl.Int32, "int64": pl.Int64}[form])
        )

    pl.DataFrame(
        {name: tokens(array) if array.ndim == 2 else array for name, array in columns.items()}
    ).write_parquet(path)
    return path
