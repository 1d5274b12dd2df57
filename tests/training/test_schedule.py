from __future__ import annotations

import pytest

from deeploop.training.config import Recipe
from deeploop.training.schedule import learning_rate_factor


def recipe(**values: object) -> Recipe:
    basics = {"learning_rate": 1e-3, "warmup_steps": 10, "batch_sequences": 1}
    return Recipe.model_validate(basics | values)


def test_warm_up_is_linear_and_never_zero() -> None:
    factors = [learning_rate_factor(recipe(), step) for step in range(10)]
    assert factors == pytest.approx([(step + 1) / 10 for step in range(10)])


def test_cosine_ends_at_its_least_and_stays() -> None:
    cosine = recipe(min_learning_rate=1e-4, decay_steps=110)
    assert learning_rate_factor(cosine, 10) == 1.0
    assert learning_rate_factor(cosine, 60) == pytest.approx(0.55)
    assert learning_rate_factor(cosine, 110) == pytest.approx(0.1)
    assert learning_rate_factor(cosine, 500) == pytest.approx(0.1)


def test_constant_stays_at_the_peak() -> None:
    assert learning_rate_factor(recipe(schedule="constant"), 10**6) == 1.0
