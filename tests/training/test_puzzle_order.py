from __future__ import annotations

import numpy as np
import pytest

from deeploop.errors import UserError
from deeploop.training.puzzle_order import PuzzleOrder, published_steps
from tests.training.puzzles import SmallPuzzles


@pytest.fixture
def data() -> SmallPuzzles:
    return SmallPuzzles(groups=7, members=3)


def stream(order: PuzzleOrder, steps: int) -> np.ndarray:
    return np.concatenate([order.rows(step, range(order.rows_per_step)) for step in range(steps)])


def test_an_epoch_takes_every_group_once_as_one_member_with_all_its_examples(
    data: SmallPuzzles,
) -> None:
    order = PuzzleOrder(data, rows_per_step=1, seed=0)
    rows = stream(order, 3 * order.rows_per_epoch)
    for epoch in rows.reshape(3, -1):
        members = np.unique(data.puzzle_of[epoch])
        assert sorted(members // 3) == list(range(7))
        expected = np.concatenate([np.arange(*data.puzzle_indices[[m, m + 1]]) for m in members])
        assert sorted(epoch) == sorted(expected)
        runs = data.puzzle_of[epoch]
        assert np.count_nonzero(np.diff(runs)) == 6, "a puzzle's examples follow one another"


def test_epochs_differ_in_order_member_and_examples(data: SmallPuzzles) -> None:
    order = PuzzleOrder(data, rows_per_step=1, seed=0)
    epochs = [order.epoch(number) for number in range(40)]
    assert len({tuple(epoch) for epoch in epochs}) == 40
    seen = np.bincount(np.concatenate(epochs), minlength=data.count)
    assert (seen > 0).all()
    firsts = {data.puzzle_of[epoch[0]] // 3 for epoch in epochs}
    assert firsts == set(range(7))


@pytest.mark.parametrize("rows_per_step", [4, 13, 50])
def test_a_batch_hangs_on_its_step_alone_and_is_cut_anywhere(
    data: SmallPuzzles, rows_per_step: int
) -> None:
    order = PuzzleOrder(data, rows_per_step, seed=3)
    whole = stream(order, 12)
    assert np.array_equal(whole, stream(PuzzleOrder(data, 1, seed=3), 12 * rows_per_step))
    fresh = PuzzleOrder(data, rows_per_step, seed=3)
    for step in (11, 2, 7):
        cut = rows_per_step // 3
        parts = [fresh.rows(step, range(cut)), fresh.rows(step, range(cut, rows_per_step))]
        expected = whole[step * rows_per_step : (step + 1) * rows_per_step]
        assert np.array_equal(np.concatenate(parts), expected)


def test_seeds_differ(data: SmallPuzzles) -> None:
    assert not np.array_equal(
        stream(PuzzleOrder(data, 8, seed=0), 3), stream(PuzzleOrder(data, 8, seed=1), 3)
    )


def test_the_published_number_of_steps() -> None:
    """ARC-1 and ConceptARC at 1,000 augmentations: 960 groups, 876,407 members."""

    class Counts(SmallPuzzles):
        count = 3_633_430
        puzzle_indices = np.empty(876_408)
        group_indices = np.empty(961)

        def __init__(self) -> None: ...

    assert published_steps(Counts(), epochs=100_000, rows_per_step=768) == 518_228


def test_empty_and_uneven_data_are_refused(data: SmallPuzzles) -> None:
    data.puzzle_indices = data.puzzle_indices.copy()
    data.puzzle_indices[1] += 1
    with pytest.raises(UserError, match="must all have the same examples"):
        PuzzleOrder(data, 4, seed=0)
    data.count = 0
    with pytest.raises(UserError, match="no training rows"):
        PuzzleOrder(data, 4, seed=0)
