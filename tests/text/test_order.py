from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deeploop.errors import UserError
from deeploop.text.order import TrainingWindows, ValidationWindows, window_starts
from deeploop.text.shards import TokenShards, write_part


@pytest.fixture
def shards(tmp_path: Path) -> TokenShards:
    write_part(tmp_path / "train-00000.bin", [np.arange(60, dtype=np.uint16)])
    write_part(tmp_path / "train-00001.bin", [np.arange(60, 100, dtype=np.uint16)])
    return TokenShards(tmp_path, "train")


def test_any_slicing_of_the_batch_gives_the_same_windows() -> None:
    whole = window_starts(3, 17, range(0, 12), 1000)
    for ways in (2, 3, 4, 12):
        size = 12 // ways
        slices = [range(k, k + size) for k in range(0, 12, size)]
        joined = np.concatenate([window_starts(3, 17, rows, 1000) for rows in slices])
        np.testing.assert_array_equal(joined, whole)


def test_the_draw_is_pinned_for_good() -> None:
    assert window_starts(3, 17, range(0, 4), 10**9).tolist() == PINNED


PINNED = [507849943, 184657494, 601326101, 886687989]


def test_seeds_and_steps_draw_independently_and_uniformly() -> None:
    draws = np.stack([window_starts(s, t, range(0, 64), 10) for s in range(8) for t in range(64)])
    counts = np.bincount(draws.ravel(), minlength=10)
    assert np.square(counts / counts.mean() - 1).sum() * counts.mean() < 27.9  # chi2(9), p = .001
    assert len({row.tobytes() for row in draws}) == len(draws)


def test_windows_reach_both_ends_and_targets_are_next_tokens(shards: TokenShards) -> None:
    windows = TrainingWindows(shards, context_length=97, seed=0)
    batches = np.concatenate([windows.batch(step, range(0, 4)) for step in range(20)])
    assert set(batches[:, 0].tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(batches[:, 1:], batches[:, :-1] + 1)


def test_validation_reads_each_token_once(shards: TokenShards) -> None:
    windows = ValidationWindows(shards, context_length=9, tokens=35)
    assert len(windows) == 3
    batch = windows.batch(range(0, 3))
    np.testing.assert_array_equal(batch[:, :-1].ravel(), np.arange(27))
    np.testing.assert_array_equal(batch[:, 1:].ravel(), np.arange(1, 28))
    np.testing.assert_array_equal(windows.batch(range(1, 2)), batch[1:2])


def test_too_little_data_is_named(shards: TokenShards) -> None:
    TrainingWindows(shards, context_length=99, seed=0)
    ValidationWindows(shards, context_length=33, tokens=99)
    with pytest.raises(UserError, match="too few: 100, where 1 windows of 100 need 101"):
        TrainingWindows(shards, context_length=100, seed=0)
    with pytest.raises(UserError, match="too few: 100, where 4 windows of 25 need 101"):
        ValidationWindows(shards, context_length=25, tokens=100)
    with pytest.raises(UserError, match="less than one context"):
        ValidationWindows(shards, context_length=25, tokens=24)
