from __future__ import annotations

import numpy as np

from deeploop.draws import draw_seed, uniform


def test_a_seed_is_the_same_everywhere_and_for_ever() -> None:
    assert draw_seed(0, "embedding") == 2343598404200032265
    assert draw_seed(0, "embedding") != draw_seed(1, "embedding")
    assert draw_seed(1, "2") == draw_seed("1", 2) != draw_seed("12")


def test_a_rows_draw_does_not_depend_on_how_many_are_drawn() -> None:
    few, many = uniform(3, "exploration", 7, 4), uniform(3, "exploration", 7, 100)
    assert np.array_equal(few, many[:4])
    assert not np.array_equal(few, uniform(3, "exploration", 8, 4))
    assert 0 <= many.min() < 0.1 and 0.9 < many.max() < 1
