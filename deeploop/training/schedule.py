"""Learning rate over steps, as a fraction of its peak."""

from __future__ import annotations

import math

from deeploop.training.config import Recipe


def learning_rate_factor(recipe: Recipe, step: int) -> float:
    """Return the fraction of the peak rate that update `step` (from 0) uses.

    Linear warm-up to 1 at update `warmup_steps - 1`, then constant, or a cosine that reaches
    `min_learning_rate` at `decay_steps` and stays there.
    """
    if step < recipe.warmup_steps:
        return (step + 1) / recipe.warmup_steps
    if recipe.schedule == "constant":
        return 1.0
    span = max(1, recipe.decay_steps - recipe.warmup_steps)
    progress = min(1.0, (step - recipe.warmup_steps) / span)
    least = recipe.min_learning_rate / recipe.learning_rate
    return least + (1 - least) * 0.5 * (1 + math.cos(math.pi * progress))
