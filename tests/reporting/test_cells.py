from __future__ import annotations

import pytest

from deeploop.reporting.cells import Cell, Sample, Spread, paired
from deeploop.reporting.entries import cell_entry, legend, number


def sample(
    seed: int, value: float | None, outcome: str = "trained", reported: str = "validation"
) -> Sample:
    return Sample(
        run=f"train_lm/s{seed}", seed=seed, value=value, outcome=outcome, reported=reported
    )


def test_spread_is_the_sample_standard_deviation() -> None:
    spread = Spread.of([1.0, 2.0, 3.0, 4.0])
    assert (spread.n, spread.mean, spread.low, spread.high) == (4, 2.5, 1.0, 4.0)
    assert spread.std == pytest.approx(1.2909944487)
    assert Spread.of([1.0]).std is None
    assert Spread.of([]).mean is None


def test_differences_pair_seeds_and_keep_the_worse_outcome() -> None:
    treated = Cell(
        where={}, samples=(sample(0, 2.5), sample(1, 2.7), sample(3, 9.0)), published=2.0
    )
    control = Cell(where={}, samples=(sample(1, 3.3, "floor"), sample(0, 2.4)), published=2.25)
    gap = paired({"loops": 3}, treated, control, -0.26)
    assert [s.value for s in gap.samples] == pytest.approx([0.1, -0.6])
    assert [s.outcome for s in gap.samples] == ["trained", "floor"]
    assert gap.published == -0.26


def test_an_entry_shows_mean_spread_and_every_seed_beside_the_published_value() -> None:
    cell = Cell(where={}, samples=(sample(0, 2.0), sample(1, 2.2)), published=2.25)
    entry = cell_entry(cell, 2)
    assert (entry.text, entry.spread) == ("2.10", "± 0.14 (n=2)")
    # half a 95 % interval: t = 12.706 at one degree of freedom, times 0.1414 / √2
    assert entry.detail == "2.00, 2.20; 95 %: 0.83 to 3.37"
    assert (entry.published, entry.difference) == ("2.25", "−0.15")
    assert entry.runs == ("train_lm/s0", "train_lm/s1")


def test_a_mixed_cell_says_how_many_trained() -> None:
    entry = cell_entry(Cell(where={}, samples=(sample(0, 2.0), sample(1, 3.3, "floor"))), 2)
    assert entry.detail == "2.00, 3.30† (1 of 2 trained)"
    assert entry.mark == ""


def test_a_cell_without_a_run_shows_a_dash_and_the_published_value() -> None:
    entry = cell_entry(Cell(where={}, published=2.25), 2)
    assert (entry.text, entry.published, entry.difference, entry.mark) == (
        "—",
        "2.25",
        "",
        "absent",
    )


def test_a_diverged_run_has_no_number_but_a_mark() -> None:
    entry = cell_entry(Cell(where={}, samples=(sample(0, None, "diverged"),), published=2.0), 2)
    assert (entry.text, entry.mark, entry.difference) == ("no value‡", "floor", "")


def test_the_legend_explains_only_the_marks_that_are_used() -> None:
    notes = legend([sample(0, 3.3, "floor"), sample(1, 2.0, reported="train_tail")])
    assert [note[0] for note in notes] == ["†", "§"]
    assert legend([sample(0, 2.0)]) == ()


def test_numbers_have_a_true_minus_sign() -> None:
    assert number(-0.5, 2) == "−0.50"
    assert number(0.5, 1, signed=True) == "+0.5"
    assert number(None, 2) == ""
