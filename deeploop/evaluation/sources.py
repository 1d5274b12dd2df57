"""Where a task's documents come from: a folder a task, with `<split>.parquet` or `.jsonl`.

The hub's data is brought into this form by `deeploop.evaluation.hub`, and the project's own
samples have it, so that everything else knows one kind of source only. A mirror is a folder of
such folders, named for their tasks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeploop.errors import UserError, nearest
from deeploop.evaluation.schema import COLUMNS, fault

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLES = Path(__file__).parent / "samples"
"""The project's own questions."""
SPLITS = ("train", "validation", "test")
SUFFIXES = (".parquet", ".jsonl")


def task_folders(mirror: Path, tasks: Sequence[str]) -> dict[str, Path]:
    """Return each task's folder in a mirror.

    Raises:
        UserError: a task has none.
    """
    for task in tasks:
        if not (mirror / task).is_dir():
            known = sorted(path.name for path in mirror.glob("*/"))
            raise UserError(
                f"task {task}: {mirror} has no folder '{task}'{nearest(task, known)} "
                "(`deeploop fetch_tasks DIR` downloads the official data)"
            )
    return {task: mirror / task for task in tasks}


def split_files(folder: Path) -> list[Path]:
    """Return every file of a task's folder that may hold a split."""
    named = (folder / f"{split}{suffix}" for split in SPLITS for suffix in SUFFIXES)
    return [path for path in named if path.is_file()]


def split_file(task: str, folder: Path, split: str) -> Path:
    """Return the file of one split in a task's folder.

    Raises:
        UserError: there is none, or there are two.
    """
    wanted = [folder / f"{split}{suffix}" for suffix in SUFFIXES]
    found = [path for path in wanted if path.is_file()]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"task {task}: both {found[0]} and {found[1].name} are there: keep one")
    raise UserError(
        f"task {task}: split '{split}' is missing: no {wanted[0]} or {wanted[1].name}; "
        "`deeploop fetch_tasks DIR` downloads the official data"
    )


def read_split(task: str, path: Path) -> pa.Table:
    """Return a split's documents, checked where the task's schema is known.

    Raises:
        UserError: the file cannot be read, is empty, or a field is missing or of another type.
    """
    is_parquet = path.suffix == ".parquet"
    table = _read_parquet(task, path) if is_parquet else _read_json_lines(task, path)
    if table.num_rows == 0:
        raise UserError(f"task {task}: {path} has no documents")
    return table


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    return sha256(path.read_bytes()).hexdigest()


def _read_json_lines(task: str, path: Path) -> pa.Table:
    import pyarrow as pa

    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"task {task}: {path}, line {number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise UserError(f"task {task}: {path}, line {number}: not a JSON object")
        rows.append(row)
    _check(task, path, "line", rows)
    try:
        return pa.Table.from_pylist(rows)
    except pa.ArrowException as error:  # a task whose schema we do not know, with mixed types
        raise UserError(f"task {task}: {path}: {error}".splitlines()[0]) from error


def _read_parquet(task: str, path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"task {task}: {path}: not a readable Parquet file: {reason}") from error
    known = [name for name in COLUMNS.get(task, {}) if name in table.column_names]
    _check(task, path, "row", table.select(known).to_pylist())
    return table


def _check(task: str, path: Path, unit: str, rows: Sequence[dict[str, Any]]) -> None:
    found = fault(task, rows) if task in COLUMNS else None
    if found:
        raise UserError(f"task {task}: {path}, {unit} {found[0] + 1}: {found[1]}")
