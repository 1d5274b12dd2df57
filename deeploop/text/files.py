"""Documents in local files: Parquet, JSON lines and plain text, the latter two also compressed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from deeploop.errors import UserError

PARQUET_ROWS = 256
"""Rows decoded at a time: bounds memory, whatever the row groups are."""
PARQUET_BUFFER = 2**20
"""Bytes read at a time: without, whole columns are kept until the file is closed."""
TEXT_BLOCK = 2**20
COMPRESSED = (".gz", ".zst")
SUFFIXES = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".txt": "text",
}


@dataclass(frozen=True)
class FileFormat:
    """How documents lie in files; the fields of `deeploop.text.config.Files`."""

    format: str
    text: str
    id: str | None
    separator: str | None


def read_documents(path: Path, layout: FileFormat) -> Iterator[tuple[str, str]]:
    """Yield (id, text) of each document of a file, in order; the id is the text if it has none.

    Raises:
        UserError: missing, unreadable or damaged, of unknown format, without the column, or not
            UTF-8; the message names the file and, where there is one, the line or row.
    """
    readers = {"parquet": _parquet, "jsonl": _json_lines, "text": _plain_text}
    try:
        yield from readers[_format_of(path, layout.format)](path, layout)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error.reason})") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def _format_of(path: Path, declared: str) -> str:
    if declared != "auto":
        return declared
    suffixes = [suffix for suffix in path.suffixes if suffix not in COMPRESSED]
    found = SUFFIXES.get(suffixes[-1] if suffixes else "")
    if found is None:
        raise UserError(
            f"{path}: cannot tell the format from the name (known: {', '.join(SUFFIXES)}, with "
            f"{' or '.join(COMPRESSED)} where compressed); say format: parquet, jsonl or text"
        )
    return found


def _parquet(path: Path, layout: FileFormat) -> Iterator[tuple[str, str]]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    wanted = [layout.text] if layout.id is None else [layout.text, layout.id]
    try:
        with ParquetFile(path, pre_buffer=False, buffer_size=PARQUET_BUFFER) as table:
            _require_columns(path, wanted, table.schema_arrow.names)
            row = 0
            for batch in table.iter_batches(
                batch_size=PARQUET_ROWS, columns=wanted, use_threads=False
            ):
                yield from _rows(batch, f"{path}, row", row, layout)
                row += len(batch)
    except pa.ArrowException as error:
        raise UserError(f"{path} is damaged or no Parquet file: {_one_line(error)}") from error


def _rows(batch: Any, where: str, begin: int, layout: FileFormat) -> Iterator[tuple[str, str]]:
    import pyarrow as pa

    texts, ids = batch.column(layout.text), batch.column(layout.id or layout.text)
    pairs = zip(ids.to_pylist(), texts.to_pylist(), strict=True)
    if all(pa.types.is_string(c.type) and c.null_count == 0 for c in (texts, ids)):
        yield from pairs  # documents are many, and there is nothing to look for in each
        return
    for row, (identity, text) in enumerate(pairs, start=begin + 1):
        yield _checked(identity, text, f"{where} {row}", layout)


def column_sum(path: Path, name: str) -> tuple[int, int]:
    """Return the sum over a Parquet file's integer column, and the number of its rows.

    Raises:
        UserError: no Parquet file, damaged, or without the column.
    """
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as table:
            _require_columns(path, [name], table.schema_arrow.names)
            total = compute.sum(table.read([name]).column(name).cast(pa.int64())).as_py()
            return total or 0, table.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path} is damaged or no Parquet file: {_one_line(error)}") from error


def _require_columns(path: Path, wanted: list[str], present: list[str]) -> None:
    for name in wanted:
        if name not in present:
            raise UserError(f"{path} has no column '{name}', only: {', '.join(present)}")


def _json_lines(path: Path, layout: FileFormat) -> Iterator[tuple[str, str]]:
    with _opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            where = f"{path}, line {number}"
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode())
            except UnicodeDecodeError as error:
                raise UserError(f"{where} is not UTF-8 ({error.reason})") from error
            except ValueError as error:
                raise UserError(f"{where} is not JSON: {error}") from error
            yield _from_record(record, where, layout)


def _from_record(record: Any, where: str, layout: FileFormat) -> tuple[str, str]:
    if not isinstance(record, dict) or layout.text not in record:
        raise UserError(f"{where} has no key '{layout.text}'")
    if layout.id is not None and layout.id not in record:
        raise UserError(f"{where} has no key '{layout.id}'")
    text = record[layout.text]
    return _checked(text if layout.id is None else record[layout.id], text, where, layout)


def _checked(identity: Any, text: Any, where: str, layout: FileFormat) -> tuple[str, str]:
    if not isinstance(text, str):
        raise UserError(f"{where}: '{layout.text}' is {type(text).__name__}, not text")
    if identity is None:
        raise UserError(f"{where}: '{layout.id}' is empty")
    return str(identity), text


def _plain_text(path: Path, layout: FileFormat) -> Iterator[tuple[str, str]]:
    with _opened(path) as stream:
        if layout.separator is None:
            text = stream.read().decode()
            yield text, text
            return
        for text in _split(io.TextIOWrapper(stream, "utf-8", newline=""), layout.separator):
            yield text, text


def _split(stream: io.TextIOWrapper, separator: str) -> Iterator[str]:
    """Yield what stands between separators, without holding more than it and a block."""
    held = ""
    while block := stream.read(TEXT_BLOCK):
        *whole, held = (held + block).split(separator)
        yield from (text for text in whole if text.strip())
    if held.strip():
        yield held


def _opened(path: Path) -> BinaryIO:
    """Open for reading bytes, decompressed by the file's last suffix."""
    if path.suffix not in COMPRESSED:
        return path.open("rb")
    import pyarrow as pa

    compression = "gzip" if path.suffix == ".gz" else "zstd"
    return cast(BinaryIO, io.BufferedReader(pa.input_stream(str(path), compression), TEXT_BLOCK))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
