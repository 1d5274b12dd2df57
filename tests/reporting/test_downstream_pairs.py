"""DeepLoop against base on the same questions."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from deeploop.evaluation.results import SAMPLES
from deeploop.reporting.downstream_table import downstream_table, exhibit
from deeploop.reporting.runs import PlacedRun
from tests.reporting.synthetic import write_evaluation

TASKS = ("arc_easy", "piqa")


def evaluated(root: Path, rule: str, seed: int, right: list[int]) -> PlacedRun:
    """Return a model that answers `right` of each task's questions; the same ones every time."""
    folder = root / f"{rule}-{seed}"
    share = sum(right) / len(right)
    write_evaluation(folder, {0: dict.fromkeys(TASKS, share)}, n=len(right))
    rows = [
        {"task": task, "shots": 0, "doc": doc, "doc_hash": "d", "prompt_hash": "p", "correct": ok}
        for task in TASKS
        for doc, ok in enumerate(map(bool, right))
    ]
    pl.DataFrame(rows).write_parquet(folder / SAMPLES)
    cell = {"backbone": "small", "scaling": rule, "loops": 3, "seed": seed}
    return PlacedRun(f"evaluate_lm/{rule}-{seed}", cell, folder)


def last_group(runs: list[PlacedRun]) -> tuple[str, dict[str, tuple[str, str, str]]]:
    table = exhibit("table4", downstream_table(runs, "small"), ()).table
    assert table is not None
    group = table.groups[-1]
    entries = zip(table.columns, group.rows[0].entries, strict=True)
    return group.label, {column: (e.text, e.spread, e.detail) for column, e in entries}


def test_one_seed_has_an_interval_and_mcnemars_test(tmp_path: Path) -> None:
    base = evaluated(tmp_path, "base", 0, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    deeploop = evaluated(tmp_path, "deeploop", 0, [0, 1, 1, 1, 1, 1, 1, 0, 0, 0])
    label, found = last_group([base, deeploop])
    assert label == "0-shot, DeepLoop − base on the same questions"
    # 6 questions gained, 1 lost: two-sided binomial 2 * (1 + 7) / 2^7
    assert found["PIQA"][::2] == ("+50.00", "p = 0.12")
    assert found["PIQA"][1] == "± 43.83"  # 1.96 * 0.7071 / √10
    assert found["Avg"][::2] == ("+50.00", "")


def test_several_seeds_are_paired_seed_by_seed(tmp_path: Path) -> None:
    runs = [
        evaluated(tmp_path, "base", 0, [1, 0, 0, 0]),
        evaluated(tmp_path, "deeploop", 0, [1, 1, 0, 0]),
        evaluated(tmp_path, "base", 1, [1, 1, 1, 0]),
        evaluated(tmp_path, "deeploop", 1, [1, 1, 1, 0]),
        evaluated(tmp_path, "deeploop", 2, [1, 1, 1, 1]),
    ]
    assert last_group(runs)[1]["PIQA"] == ("+12.50", "± 24.50", "")


@pytest.mark.parametrize("rule", ["base", "deeploop"])
def test_one_rule_alone_has_no_pairs(tmp_path: Path, rule: str) -> None:
    assert last_group([evaluated(tmp_path, rule, 0, [1, 0])])[0] == "0-shot"
