from __future__ import annotations

import pytest

from deeploop.reporting.sweeps_table import wilson


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
