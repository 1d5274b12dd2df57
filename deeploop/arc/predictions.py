"""Predictions as columns of a Parquet file: tokens of largest logit and a halting logit, no logits.

Columns: `puzzle_identifiers` (integer; 0 marks rows that only fill a batch), `inputs`, `labels` and
`preds` (grid_size^2 tokens each, as binary of one byte a token, or as lists of integers), and
`q_halt_logits` (float). Any code's predictions can be scored in this form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt
from pathlib import Path

import numpy as np
import polars as pl

from deeploop.arc.grids import MAX_GRID
from deeploop.arc.rows import ArcRows
from deeploop.errors import UserError

TOKEN_COLUMNS = ("inputs", "labels", "preds")
COLUMNS = ("puzzle_identifiers", *TOKEN_COLUMNS, "q_halt_logits")
BATCH = 8_192
"""Rows written as one group, and read at once: memory that stays in use costs no page faults."""


def write_predictions(
    path: Path, rows: ArcRows, preds: np.ndarray, q_halt_logits: np.ndarray
) -> None:
    """Write the predictions for every row of a split, in order; equal values give equal bytes.

    Args:
        path: the Parquet file.
        rows: the split that was predicted, N rows.
        preds: uint8 [N, T], the tokens of largest logit.
        q_halt_logits: [N], before the sigmoid; kept as float32.

    Raises:
        ValueError: when a shape is not that of `rows`.
    """
    if preds.shape != (rows.count, rows.tokens) or q_halt_logits.shape != (rows.count,):
        raise ValueError(f"predictions {preds.shape} for {rows.count} rows of {rows.tokens} tokens")
    inputs, labels, identifiers = rows.render(np.arange(rows.count))
    tokens = zip(TOKEN_COLUMNS, (inputs, labels, preds.astype(np.uint8)), strict=True)
    frame = pl.DataFrame(
        {"puzzle_identifiers": identifiers}
        | {
            name: pl.Series([bytes(row) for row in array], dtype=pl.Binary)
            for name, array in tokens
        }
        | {"q_halt_logits": q_halt_logits.astype(np.float32)}
    )
    frame.write_parquet(path, compression="zstd", row_group_size=BATCH, statistics=False)


def read_batches(
    path: Path, columns: Sequence[str] = COLUMNS, identifiers: Sequence[int] | None = None
) -> Iterator[pl.DataFrame]:
    """Yield some thousand rows at a time, in order; tokens as `pl.Array(pl.UInt8, T)`.

    Only rows of `identifiers` where those are given.

    Memory does not grow with the file, and is used again rather than asked for anew, which takes
    longer than the decoding.

    Raises:
        UserError: when it is no such table, or tokens or logits are not what they should be.
    """
    try:
        table = pl.scan_parquet(path)
        missing = [name for name in COLUMNS if name not in table.collect_schema()]
        if missing:
            raise UserError(f"{path}: no column {', '.join(missing)}; needed: {', '.join(COLUMNS)}")
        if identifiers is not None:
            table = table.filter(pl.col("puzzle_identifiers").is_in(identifiers))
        table = table.select(columns)
        for batch in table.collect_batches(chunk_size=BATCH, maintain_order=True):
            yield _checked(batch, path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path}: not a readable table of predictions: {error}") from error


def _checked(batch: pl.DataFrame, path: Path) -> pl.DataFrame:
    for column in batch:
        if column.null_count() or (column.dtype.is_float() and column.is_nan().any()):
            raise UserError(f"{path}: column {column.name} has missing or NaN values")
        if column.name == "puzzle_identifiers" and not column.dtype.is_integer():
            raise UserError(f"{path}: column {column.name} must hold integers")
    return batch.with_columns(_token_column(batch[c], path) for c in TOKEN_COLUMNS if c in batch)


def _token_column(column: pl.Series, path: Path) -> pl.Series:
    """Return a column of tokens, whatever its form, as arrays of bytes."""
    where, kind = f"{path}: column {column.name}", column.dtype
    if kind == pl.Binary:
        sizes = column.bin.size()
    elif isinstance(kind, pl.List | pl.Array) and kind.inner.is_integer():
        column = column.cast(pl.List(pl.UInt8))
        sizes = column.list.len()
    else:
        raise UserError(f"{where}: tokens are binary or lists of integers, not {kind}")
    size = int(sizes[0]) if len(sizes) else 0
    if isqrt(size) ** 2 != size or size > MAX_GRID**2 or sizes.n_unique() > 1:
        raise UserError(f"{where}: each row needs the tokens of one square of at most 30 x 30")
    array = pl.Array(pl.UInt8, size)
    return column.bin.reinterpret(dtype=array) if kind == pl.Binary else column.cast(array)


def read_rows(path: Path, columns: Sequence[str], rows: pl.Series) -> pl.DataFrame:
    """Return single rows, by number from 0, with their number as column `row`."""
    found, first = [], 0
    for batch in read_batches(path, columns):
        numbered = batch.with_row_index("row", offset=first)
        found.append(numbered.filter(pl.col("row").is_in(rows.implode())))
        first += len(batch)
    return pl.concat(found)
