from __future__ import annotations

import pytest

from deeploop.reporting.runs import PlacedRun
from deeploop.reporting.sweeps_table import exhibit, wilson


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    # Wilson's interval as statistics packages print it
    [
        (0, 10, 0.0, 0.2775),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_intervals_of_fractions(hits: int, trials: int, low: float, high: float) -> None:
    assert wilson(hits, trials) == pytest.approx((low, high), abs=5e-5)


def test_nothing_is_said_of_settings_without_a_result() -> None:
    cell = {"backbone": "tiny", "alpha_p": 0.5, "beta_p": 0.0, "loops": 5, "seed": 0}
    found = exhibit(
        [PlacedRun("train_lm/one", cell, None)], {"alpha_or_beta_alone": ["train_lm/one"]}
    )
    assert found.findings == ()
    assert found.table is not None
    (row,) = found.table.groups[0].rows
    assert {entry.text for entry in row.entries} == {"pending"}
