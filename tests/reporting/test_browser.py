"""The pages in a browser: errors, requests, figures, sorting, selection, a phone's width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deeploop.reporting.partial_report import build_records
from deeploop.reporting.published_report import build_published
from deeploop.resolve import Resolver
from tests.reporting import browser, demo_suite
from tests.reporting.built_suite import fill, make_project

pytestmark = pytest.mark.skipif(browser.CHROMIUM is None, reason="needs chromium")

Found = tuple[dict[str, Any], list[str]]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Found:
    root = tmp_path_factory.mktemp("suite")
    return browser.look(demo_suite.build(root) / "index.html", root)


def check(found: Found, figures: int) -> None:
    views, console = found
    assert console == []
    assert set(views) == {"phone", "desk"}
    for view in views.values():
        assert view["requests"] == []
        assert len(view["figures"]) == figures
        assert all(figure["visible"] and len(figure["alt"]) > 40 for figure in view["figures"])
        assert view["overflow"] <= 0
        assert view["pale"] == []


def test_the_built_report(suite: Found) -> None:
    check(suite, figures=12)


def test_sorting_and_selection(suite: Found) -> None:
    for view in suite[0].values():
        up, down = ([float(value) for value in view["sorting"][way]] for way in ("up", "down"))
        assert up == sorted(up)
        assert down == sorted(up, reverse=True)
        chosen = view["selection"]
        assert (chosen["every"], chosen["none"], chosen["one"]) == (chosen["runs"], 0, 1)
        assert set(chosen["quantities"].values()) == {1}
        assert "at step" in chosen["tip"]


def test_the_page_of_the_runs(tmp_path: Path) -> None:
    root = tmp_path / "project"
    plan = make_project(root, "smoke")
    fill(root, plan, steps=30)
    page, problems = build_records(Resolver(root, plan, write=False), tmp_path / "out")
    assert problems == []
    found = browser.look(page, tmp_path)
    check(found, figures=0)
    for view in found[0].values():
        assert view["sorting"]["up"] == sorted(view["sorting"]["up"], key=float)


def test_the_published_report(tmp_path: Path) -> None:
    build_published(tmp_path / "out")
    check(browser.look(tmp_path / "out" / "index.html", tmp_path), figures=11)
