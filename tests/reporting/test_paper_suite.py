"""A report of the whole paper suite, its runs' numbers made up: its size, and what it says."""

from __future__ import annotations

import json
from pathlib import Path

from deeploop.reporting.partial_report import build_partial
from deeploop.resolve import Resolver
from tests.reporting.built_suite import fill, make_project

MEGABYTE = 1_000_000


def test_the_paper_suite(tmp_path: Path) -> None:
    root = tmp_path / "project"
    plan = make_project(root, "paper")
    fill(root, plan, steps=2000)
    page, problems = build_partial(Resolver(root, plan, write=False), root / "out")
    assert problems == []
    assert page.stat().st_size < 5 * MEGABYTE
    assert (root / "out/runs.html").stat().st_size < 5 * MEGABYTE
    curves = json.loads((root / "out/tables/training_curves-data.json").read_text())["curves"]
    assert len(curves) == 16 + 35 + 8
    assert max(len(curve["step"]) for curve in curves) <= 160
    claims = json.loads((root / "out/tables/claims.json").read_text())["claims"]
    decided = {claim["name"]: claim["build"]["verdict"] for claim in claims}
    assert decided["p-boundary"] in {"holds", "fails"}
    assert "undecided" not in {decided["best-average"], decided["gap-widens"]}
    # 4 GPUs at a tenth of an H200's peak each
    assert "10.0 %" in (root / "out/runs.html").read_text()
    metrics = json.loads((root / "out/tables/metrics.json").read_text())
    assert set(metrics["table1"]) == {"small", "medium"}
    lines = (root / "out/tables/loss-medium.csv").read_text().splitlines()
    assert lines[0] == "loops,base,deeploop"
    assert len(lines) == 5
