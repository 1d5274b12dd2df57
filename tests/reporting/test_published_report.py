"""The report of the published numbers: the paper's tables cell by cell, and its curves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import correlation
from typing import Any

import pytest

from deeploop.reporting.published import published
from deeploop.reporting.published_report import build_published

NAMES = {"base": "base", "deeploop": "DeepLoop", "vanilla": "Vanilla HRM"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("published")
    build_published(out)
    return out


def lines(folder: Path, name: str) -> dict[tuple[str, str], list[str]]:
    """(group, label) -> what the table's line shows."""
    table: dict[str, Any] = json.loads((folder / "tables" / f"{name}.json").read_text())["table"]
    return {
        (group["label"], row["label"].replace("\u00a0", " ")): [e["text"] for e in row["entries"]]
        for group in table["groups"]
        for row in group["rows"]
    }


def text(value: float, digits: int, signed: bool = False) -> str:
    return f"{value:{'+' if signed else ''}.{digits}f}".replace("-", "−")


def test_table_1(folder: Path) -> None:
    paper, found = published().validation_loss, lines(folder, "table1")
    for backbone, rules in paper.values.items():
        group = f"GPT-2 {backbone} backbone"
        for rule, by_loops in rules.items():
            shown = found.pop((group, NAMES[rule]))
            assert shown == [text(value, 4) for value in by_loops.values()]
        shown = found.pop((group, "Δ (DeepLoop − base)"))
        assert shown == [text(value, 4, True) for value in paper.differences[backbone].values()]
    assert found == {}


@pytest.mark.parametrize(("name", "backbone"), [("table2", "medium"), ("table4", "small")])
def test_tables_2_and_4(folder: Path, name: str, backbone: str) -> None:
    found = lines(folder, name)
    for shots, rules in published().downstream.tables[backbone].shots.items():
        for rule, by_loops in rules.items():
            for loops, row in by_loops.items():
                shown = found.pop((f"{shots}-shot", f"{NAMES[rule]} R = {loops}"))
                assert shown == [text(value, 2) for value in row]
    assert found == {}


def test_table_3(folder: Path) -> None:
    paper, found = published().arc_votes, lines(folder, "table3")
    for rule, by_votes in paper.values.items():
        assert found.pop(("", NAMES[rule])) == [text(value, 2) for value in by_votes.values()]
    gap = [text(value, 2, True) for value in paper.differences.values()]
    assert found.pop(("", "Δ (DeepLoop − vanilla)")) == gap
    assert found == {}


def test_the_p_sweep(folder: Path) -> None:
    found = lines(folder, "p_sweep")
    assert found["", "p = 0.45"][:2] == ["some", "3.70"]
    assert found["", "p = 0.40"][:2] == ["none", "—"]
    assert [row[1] for row in found.values()][-2:] == ["3.76", "3.80"]


def curves() -> list[tuple[str, list[float]]]:
    """Return figures, and what a curve in each must show."""
    paper = published()
    return [
        *(
            (f"table1-{backbone}", list(by_loops.values()))
            for backbone, rules in paper.validation_loss.values.items()
            for by_loops in rules.values()
        ),
        *(
            (f"{name}-{backbone}-average-{shots}-shot", [row[-1] for row in by_loops.values()])
            for name, backbone in (("table2", "medium"), ("table4", "small"))
            for shots, rules in paper.downstream.tables[backbone].shots.items()
            for by_loops in rules.values()
        ),
        *(("table3-ladder", list(votes.values())) for votes in paper.arc_votes.values.values()),
        ("p_sweep-published", list(paper.p_sweep.trained_mean.values())),
    ]


@pytest.mark.parametrize(("figure", "values"), curves())
def test_the_figures_show_the_curves(folder: Path, figure: str, values: list[float]) -> None:
    svg = (folder / "figures" / f"{figure}.svg").read_text()
    paths = re.findall(r'<path d="([^"]+)"', svg)
    drawn = [[float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", path)] for path in paths]
    alike = [
        correlation(heights, values)  # y grows downwards
        for heights in drawn
        if len(heights) == len(values) and len(set(heights)) > 1
    ]
    assert min(alike) < -1 + 1e-9
    assert (folder / "figures" / f"{figure}.pdf").stat().st_size > 5000


def test_the_page_judges_the_published_numbers_only(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    assert "published numbers" in page
    assert "this build" not in page
    assert "runs.html" not in page
