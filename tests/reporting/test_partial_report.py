"""A report of a build under way: what is pending, what is damaged, what is on record."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from deeploop.cli import main
from deeploop.plan import Plan
from deeploop.reporting.partial_report import build_partial, build_records
from deeploop.resolve import Resolver
from deeploop.store import Entry
from tests.reporting.built_suite import fill, make_project

LATE = "train_lm/smoke-deeploop-r3-s0"


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, Plan]:
    plan = make_project(tmp_path / "project", "smoke")
    fill(tmp_path / "project", plan, lambda run: run.id != LATE)
    return tmp_path / "project", plan


def partial(project: tuple[Path, Plan]) -> tuple[str, list[str]]:
    root, plan = project
    written, problems = build_partial(Resolver(root, plan, write=False), root / "out")
    return written.read_text(), problems


def test_what_has_not_run_is_pending_and_the_rest_is_shown(project: tuple[Path, Plan]) -> None:
    page, problems = partial(project)
    assert problems == []
    table = (project[0] / "out/tables/table1.md").read_text()
    deeploop = next(line for line in table.splitlines() if line.startswith("| DeepLoop"))
    assert re.fullmatch(r"\| DeepLoop \| 2\.\d{4} \| pending \|", deeploop)
    assert "A build under way" in page
    # Its evaluation hangs on it.
    assert "pending" in (project[0] / "out/tables/table4.md").read_text()
    assert f'id="{LATE}"' in (project[0] / "out/runs.html").read_text()


def test_nothing_has_run(tmp_path: Path) -> None:
    plan = make_project(tmp_path / "project", "paper")
    page, problems = partial((tmp_path / "project", plan))
    assert problems == []
    assert page.count('class="pending"') > 100
    lines = (tmp_path / "project/out/tables/table1.md").read_text().splitlines()
    assert "| base | pending | pending | pending | pending |" in lines
    assert "| · published | 2.8627 | 2.8077 | 2.7910 | 2.7700 |" in lines


def inconsistent(path: Path) -> None:
    manifest = json.loads(path.read_text())
    manifest["outputs"]["metrics.json"]["sha256"] = "0" * 64
    path.write_text(json.dumps(manifest))


def test_damage_is_named_and_the_rest_is_shown(
    project: tuple[Path, Plan],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, plan = project
    names = ("smoke-base-r1-s0", "smoke-base-r3-s0", "smoke-deeploop-r1-s0", "smoke-p0.35-r3-s0")
    missing, corrupt, other, bytes_ = (plan.get("train_lm", name) for name in names)
    (root / missing.manifest).unlink()
    (root / corrupt.manifest).write_text('{"outputs": {')
    inconsistent(root / other.manifest)
    resolver = Resolver(root, plan, write=False)
    entry = Entry(resolver.store, bytes_.stage, resolver.keys[bytes_])
    metrics = entry.outputs_folder / "metrics.json"
    metrics.write_text(metrics.read_text().replace("3.3", "1.3", 1))

    monkeypatch.chdir(root)
    assert main(["report", "--partial", "--suite", "smoke", "--out", str(root / "out")]) == 1
    errors = capsys.readouterr().err
    page = (root / "out/index.html").read_text()
    for words in (
        f"{missing.id}: {missing.manifest} is missing",
        f"{corrupt.id}: {corrupt.manifest} is corrupt",
        f"{other.id}: {other.manifest} does not agree with the store",
        f"{bytes_.id}: metrics.json in the store has other bytes",
    ):
        assert f"deeploop: {words}" in errors
        assert words in page
    assert errors.count("\n") == 4
    table = (root / "out/tables/table1.md").read_text().splitlines()
    assert "| base | pending | pending |" in table
    downstream = (root / "out/tables/table2.md").read_text()
    assert re.search(r"base R = 1 \| \d\d\.\d\d", downstream.replace("\u00a0", " "))


def test_the_records_of_the_runs(project: tuple[Path, Plan]) -> None:
    root, plan = project
    written, problems = build_records(Resolver(root, plan, write=False), root / "out")
    page = written.read_text()
    assert problems == []
    run = plan.get("train_lm", "smoke-base-r1-s0")
    entry = json.loads((root / run.folder / "entry.json").read_text())
    for said in (
        entry["key"],
        entry["spec_sha256"],
        entry["manifest_sha256"],
        "0123456789abcdef",
        "dvc repro train_lm-smoke-base-r1-s0",
        "1,000 tokens/s",
        "Python 3.11.7; torch 2.13.0",
    ):
        assert said in page
    assert "<td>trained</td>" in page
    assert "<td>pending</td>" in page
