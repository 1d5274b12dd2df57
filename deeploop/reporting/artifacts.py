"""The files of an exhibit: its JSON and CSV for machines, its table for people and for papers."""

from __future__ import annotations

import json
from pathlib import Path

from deeploop.reporting.exhibits import Exhibit
from deeploop.reporting.tables import to_csv, to_latex, to_markdown


def write_exhibit(exhibit: Exhibit, folder: Path) -> None:
    """Write `<name>.json` and, where the exhibit has a table, `.csv`, `.md` and `.tex`."""
    stem = folder / exhibit.name
    _write(stem.with_suffix(".json"), json_text(exhibit.model_dump(mode="json")))
    if exhibit.table is not None:
        if exhibit.cells:
            _write(stem.with_suffix(".csv"), to_csv(exhibit.cells))
        _write(stem.with_suffix(".md"), to_markdown(exhibit.table))
        _write(stem.with_suffix(".tex"), to_latex(exhibit.table))


def json_text(value: object) -> str:
    """Return sorted, indented JSON; infinities and NaN are refused."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
