from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deeploop.errors import BuildError
from deeploop.reporting.exhibits import Exhibit
from deeploop.reporting.harness_table import exhibit
from deeploop.reporting.runs import PlacedRun


def shown(folder: Path, metrics: dict[str, Any]) -> Exhibit:
    (folder / "metrics.json").write_text(json.dumps(metrics))
    return exhibit([PlacedRun("hrm_harness_check/arc2-published", {}, folder)])


def test_a_check_stands_beside_the_published_percentage(tmp_path: Path) -> None:
    percent = {"1": 4.0, "2": 5.25}
    metrics = {"outcome": "failed", "percent": percent, "votes": 2, "found": 5.25, "expected": 5.0}
    found = shown(tmp_path, metrics)
    assert found.table is not None
    (row,) = found.table.groups[0].rows
    assert [entry.text for entry in row.entries] == ["failed", "4.00", "5.25"]
    assert (row.entries[1].published, row.entries[2].published) == ("", "5.00")
    assert row.entries[2].difference == "+0.25"
    assert row.entries[2].runs == ("hrm_harness_check/arc2-published",)
    assert "5.25 percent at K = 2 where 5.0 is published" in found.findings[0]


def test_a_skipped_check_says_why(tmp_path: Path) -> None:
    found = shown(tmp_path, {"outcome": "skipped", "reason": "the hub cannot be reached"})
    assert found.findings == ("arc2-published: skipped, the hub cannot be reached.",)
    assert found.cells == ()


def test_a_check_to_come_is_pending() -> None:
    found = exhibit([PlacedRun("hrm_harness_check/arc2-published", {}, None)])
    assert found.table is not None
    assert found.table.groups[0].rows[0].entries[0].text == "pending"


def test_a_damaged_check_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="outcome"):
        shown(tmp_path, {"found": 5.0})
