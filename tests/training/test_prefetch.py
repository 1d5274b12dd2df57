from __future__ import annotations

import threading

import pytest

from deeploop.training.prefetch import prefetch


def test_prefetch_keeps_order_and_raises_in_place() -> None:
    assert list(prefetch(lambda step: step * step, range(3, 9), depth=3)) == [9, 16, 25, 36, 49, 64]
    assert list(prefetch(lambda step: step, range(0))) == []

    def failing(step: int) -> int:
        if step == 2:
            raise ValueError("step 2")
        return step

    seen = []
    with pytest.raises(ValueError, match="step 2"):
        for value in prefetch(failing, range(5)):
            seen.append(value)
    assert seen == [0, 1]


def test_the_next_batches_are_loaded_while_one_is_in_use() -> None:
    loaded = [threading.Event() for _ in range(4)]

    def load(step: int) -> int:
        loaded[step].set()
        return step

    batches = prefetch(load, range(4), depth=2)
    assert next(batches) == 0
    assert loaded[1].wait(60) and loaded[2].wait(60)
    assert not loaded[3].is_set()
    assert list(batches) == [1, 2, 3]


def test_the_thread_ends_with_the_batches() -> None:
    batches = prefetch(lambda step: step, range(1000))
    next(batches)
    batches.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("prefetch")]
