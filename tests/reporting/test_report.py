"""The report of a made-up demo suite, built through the stages' own `expand` and `run`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import pytest

from deeploop.errors import BuildError
from deeploop.reporting.pages import Page, Source
from deeploop.reporting.pages import build as build_pages
from deeploop.stage import Draft
from stages import report, table1
from tests.reporting import demo_suite
from tests.reporting.synthetic import FakePlan, job_of, training_draft, write_training

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("suite")
    demo_suite.build(root)
    return root


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def test_every_output_is_the_same_bytes_in_another_process(suite: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.reporting.demo_suite", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo"},
        check=True,
    )
    for stage in demo_suite.TABLES:
        assert digests(suite / stage.name) == digests(tmp_path / stage.name)
    assert len(digests(tmp_path / "report")) > 40


def test_planning_the_tables_imports_nothing_heavy() -> None:
    code = (
        "import sys; from tests.reporting.synthetic import FakePlan\n"
        "from stages import p_sweep, report, table1, table2, table3, table4\n"
        "list(table1.expand(table1.Table1Section(), FakePlan('paper', {})))\n"
        "print(*sorted({'polars', 'matplotlib', 'jinja2', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.split() == []


def test_the_page_is_self_contained(suite: Path) -> None:
    page = (suite / "report/all/index.html").read_text()

    class Links(HTMLParser):
        found: ClassVar[list[str]] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            # A link that is followed is no request; a source or style sheet is.
            self.found += [
                v or "" for k, v in attrs if k == "src" or (tag == "link" and k == "href")
            ]

    Links().feed(page)
    assert all(link.startswith("data:") for link in Links.found)
    assert "@import" not in page
    assert page.count("<svg") == 12
    ids = [part.split('"', 1)[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))


def test_links_lead_to_files_that_are_there(suite: Path) -> None:
    folder = suite / "report/all"
    for page in ("index.html", "report.md"):
        text = (folder / page).read_text()
        links = [
            part.split('"')[0].split(")")[0] for part in text.replace('href="', "](").split("](")
        ]
        files = {link for link in links if link.startswith(("tables/", "figures/"))}
        assert len(files) >= 12
        assert all((folder / link).is_file() for link in files)


def test_demo_numbers_are_declared_not_to_be_the_papers(suite: Path) -> None:
    for page in ("index.html", "report.md"):
        text = (suite / "report/all" / page).read_text()
        assert text.index("These numbers are not the paper") < text.index("cross-entropy")


def test_a_number_of_every_format_is_the_runs_own(suite: Path) -> None:
    run = json.loads((suite / "train_lm/tiny-base-r1-s0/metrics.json").read_text())
    value = f"{run['validation_loss']:.4f}"
    tables = suite / "table1/all"
    for name in ("table1.md", "table1.tex"):
        assert value in (tables / name).read_text()
    assert repr(run["validation_loss"]) in (tables / "table1.csv").read_text()
    for page in ("index.html", "report.md"):
        assert value in (suite / "report/all" / page).read_text()


def test_a_cell_without_a_run_is_a_dash_beside_the_published_value(tmp_path: Path) -> None:
    drafts = [
        training_draft("small", "base", 0.0, 1, 0, "table1"),
        training_draft("small", "base", 0.0, 7, 0, "table1"),
        training_draft("small", "deeploop", 0.5, 7, 0, "table1"),
    ]
    for draft in drafts:
        write_training(tmp_path / "train_lm" / draft.name, 2.75)
    (draft,) = table1.expand(table1.Table1Section(), FakePlan("paper", {"train_lm": drafts}))
    job = job_of("table1", "paper", draft, tmp_path)
    table1.run(job)
    lines = (job.folder / "table1.md").read_text().splitlines()
    (deeploop,) = [line for line in lines if line.startswith("| DeepLoop")]
    assert deeploop == "| DeepLoop | — | 2.7500 |"
    assert "| · published | 2.8631 | 2.7514 |" in lines


def test_a_suite_without_runs_of_the_group_has_no_table() -> None:
    plan = FakePlan("smoke", {"train_lm": [training_draft("tiny", "base", 0.0, 1, 0, "p_sweep")]})
    assert list(table1.expand(table1.Table1Section(), plan)) == []
    (curves,) = report.expand(report.ReportSection(), plan)
    assert curves.params["exhibits"] == []  # nothing but training curves
    assert list(report.expand(report.ReportSection(), FakePlan("smoke", {}))) == []


def test_run_names_do_no_harm(tmp_path: Path) -> None:
    nasty = '"><script>alert(1)</script>&_%'
    cell = training_draft(nasty, "base", 0.0, 1, 0).cell
    draft = Draft(name="a", params={}, groups=("table1",), cell=cell)
    write_training(tmp_path / "train_lm/a", 2.75)
    (planned,) = table1.expand(table1.Table1Section(), FakePlan("demo", {"train_lm": [draft]}))
    job = job_of("table1", "demo", planned, tmp_path)
    table1.run(job)
    tables = job.folder
    out = tmp_path / "report"
    out.mkdir()
    build_pages([Source("table1", tables)], Page(title=nasty, suite="demo"), out)
    page = (out / "index.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "<script>" not in (out / "report.md").read_text().replace(r"\<script\>", "")
    assert r"\&\_\%" in (tables / "table1.tex").read_text()
    assert all(path.name.isascii() and "<" not in path.name for path in tables.iterdir())


def test_a_broken_input_is_named(tmp_path: Path) -> None:
    (tmp_path / "table1.json").write_text("{")
    with pytest.raises(BuildError, match=r"table1\.json"):
        build_pages([Source("table1", tmp_path)], Page(title="title", suite="demo"), tmp_path)


def test_metrics_without_a_loss_are_named(tmp_path: Path) -> None:
    draft = training_draft("small", "base", 0.0, 1, 0, "table1")
    write_training(tmp_path / "train_lm" / draft.name, 2.75, validation_loss="low")
    (planned,) = table1.expand(table1.Table1Section(), FakePlan("paper", {"train_lm": [draft]}))
    with pytest.raises(BuildError, match=r"metrics\.json: validation_loss"):
        table1.run(job_of("table1", "paper", planned, tmp_path))
