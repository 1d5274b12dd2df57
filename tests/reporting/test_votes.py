from __future__ import annotations

from math import sqrt
from pathlib import Path

import pytest

from deeploop.reporting.runs import PlacedRun
from deeploop.reporting.votes_table import exhibit, votes_table
from tests.reporting.synthetic import write_vote


def run(
    root: Path, rule: str, seed: int, shares: dict[int, float], puzzles: int = 400
) -> PlacedRun:
    folder = root / f"{rule}-{seed}"
    write_vote(folder, shares, puzzles)
    return PlacedRun(f"vote_arc/{folder.name}", {"rule": rule, "seed": seed}, folder)


def test_cells_are_percent_beside_the_published(tmp_path: Path) -> None:
    found = votes_table([run(tmp_path, "vanilla", 0, {1: 0.3, 2: 0.375})])
    cell = found.cells["vanilla", 2]
    assert cell.samples[0].value == 37.5
    assert cell.samples[0].stderr == pytest.approx(100 * sqrt(0.375 * 0.625 / 400))
    assert (cell.published, cell.difference) == (36.5, 1.0)
    assert found.gaps == ()


def test_differences_pair_seeds(tmp_path: Path) -> None:
    runs = [run(tmp_path, "vanilla", s, {2: share}) for s, share in enumerate((0.3, 0.4))]
    runs += [run(tmp_path, "deeploop", s, {2: share}) for s, share in ((1, 0.45), (7, 0.9))]
    found = votes_table(runs)
    (gap,) = found.gaps
    assert [s.value for s in gap.samples] == [pytest.approx(5.0)]
    assert gap.published == 3.25
    rows = exhibit(found, ()).table.groups[0].rows  # type: ignore[union-attr]
    assert [row.label for row in rows] == ["Vanilla HRM", "DeepLoop", "Δ (DeepLoop − vanilla)"]


def test_solving_nothing_is_said(tmp_path: Path) -> None:
    runs = [run(tmp_path, rule, 0, {1: 0.0, 2: 0.0}, puzzles=8) for rule in ("vanilla", "deeploop")]
    found = exhibit(votes_table(runs), ())
    assert found.findings == ("No run solves a held-out puzzle at any number of votes.",)
    assert "400 puzzles; here one puzzle of 8 is 12.5 points" in found.notes[0]


def test_votes_that_only_some_runs_have_leave_a_dash(tmp_path: Path) -> None:
    found = votes_table(
        [run(tmp_path, "vanilla", 0, {1: 0.3}), run(tmp_path, "deeploop", 0, {10: 0.4})]
    )
    (vanilla, deeploop, _) = exhibit(found, ()).table.groups[0].rows  # type: ignore[union-attr]
    assert [entry.text for entry in vanilla.entries] == ["30.00", "—"]
    assert [entry.text for entry in deeploop.entries] == ["—", "40.00"]


def test_runs_beyond_the_paper_stand_below_and_change_no_number_above(tmp_path: Path) -> None:
    paper = [run(tmp_path, rule, 0, {1: 0.3, 2: 0.4}) for rule in ("vanilla", "deeploop")]
    folder = tmp_path / "gpt"
    write_vote(folder, {1: 0.9, 2: 0.95}, 400)
    gpt = PlacedRun("vote_arc/gpt", {"rule": "deeploop", "loops": 3, "seed": 0}, folder)
    alone, found = votes_table(paper), votes_table([*paper, gpt], ["vote_arc/gpt"])
    assert (found.cells, found.gaps, found.rules) == (alone.cells, alone.gaps, alone.rules)
    before, above = exhibit(alone, ()).table, exhibit(found, ()).table
    assert before is not None and above is not None
    assert above.groups[0] == before.groups[0]
    (row,) = above.groups[1].rows
    assert (above.groups[1].label, row.label) == ("Beyond the paper", "Looped GPT, DeepLoop, R = 3")
    assert [entry.text for entry in row.entries] == ["90.00", "95.00"]
