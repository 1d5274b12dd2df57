"""Small files for other programs' eyes: DVC's metrics and plots (`dvc metrics show`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deeploop.reporting.artifacts import json_text
from deeploop.reporting.cells import Cell
from deeploop.reporting.exhibits import Exhibit
from deeploop.reporting.names import slug
from deeploop.reporting.published import AVERAGE


def write_views(exhibits: Sequence[Exhibit], folder: Path) -> None:
    """Write `metrics.json`, and `loss-<backbone>.csv` for each backbone, into `folder`."""
    folder.mkdir(exist_ok=True)
    metrics: dict[str, Any] = {}
    losses: dict[str, dict[int, dict[str, float | None]]] = {}
    for exhibit in exhibits:
        for cell in exhibit.cells:
            if cell.spread.mean is not None and cell.where.get("task", AVERAGE) == AVERAGE:
                _put(metrics, [exhibit.name, *_path(cell)], cell.spread.mean)
            if exhibit.name == "table1" and " - " not in str(cell.where["scaling"]):
                loops = losses.setdefault(str(cell.where["backbone"]), {})
                by_rule = loops.setdefault(int(cell.where["loops"]), {})
                by_rule[str(cell.where["scaling"])] = cell.spread.mean
    (folder / "metrics.json").write_text(json_text(metrics), encoding="utf-8", newline="\n")
    for backbone, rows in losses.items():
        _write_wide(rows, folder / f"loss-{slug(backbone)}.csv")


def _path(cell: Cell) -> list[str]:
    """Return a cell's place as the names that lead to it."""
    return [
        value if isinstance(value, str) else f"{key}={value:g}"
        for key, value in cell.where.items()
        if key != "task"
    ]


def _put(tree: dict[str, Any], path: Sequence[str], value: float) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _write_wide(rows: dict[int, dict[str, float | None]], path: Path) -> None:
    """Write a line for each R and a column for each rule."""
    import polars as pl

    table = [{"loops": loops, **by_rule} for loops, by_rule in sorted(rows.items())]
    path.write_text(pl.DataFrame(table, infer_schema_length=None).write_csv(), encoding="utf-8")
