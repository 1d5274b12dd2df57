"""What an HRM training is, beside its architecture. Defaults are the published ARC settings.

Imports no torch: planning reads it.
"""

from __future__ import annotations

import math

from pydantic import Field, model_validator

from deeploop.stage import Section


class HRMRecipe(Section):
    """Optimizers, schedule and batch."""

    learning_rate: float = Field(default=1e-4, gt=0)
    """Of AdamATan2, after the warm-up."""
    puzzle_learning_rate: float = Field(default=1e-2, ge=0)
    """Of SignSGD on the puzzle embedding; same schedule."""
    warmup_steps: int = Field(default=2000, ge=0)
    """Linear; update s (from 0) uses (s + 1) / warmup_steps of the rate."""
    least_rate: float = Field(default=1.0, ge=0, le=1)
    """Fraction of the rate at which a cosine over the whole training ends; 1 keeps it constant."""
    weight_decay: float = Field(default=0.1, ge=0)
    puzzle_weight_decay: float = Field(default=0.1, ge=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.95, ge=0, lt=1)
    batch_rows: int = Field(default=768, gt=0)
    """Rows (examples) a step, over all devices."""


class HRMValidation(Section):
    """Evaluations during training: all halting segments on fixed, evenly spread rows."""

    every_steps: int | None = Field(default=None, gt=0)
    """Only after the last update when absent."""
    rows: int = Field(default=768, gt=0)
    """Rows of the training split, and of the test split."""


class HRMTraining(Section):
    """One training run of HRM, apart from architecture and data."""

    recipe: HRMRecipe = HRMRecipe()
    steps: int | None = Field(default=None, gt=0)
    """Updates; or `epochs`."""
    epochs: int | None = Field(default=None, gt=0)
    """Passes over all puzzles, one augmentation of each a pass (published: 100,000)."""
    seed: int = Field(ge=0)
    validation: HRMValidation = HRMValidation()
    snapshot_steps: tuple[int, ...] = ()
    """Updates after which weights are kept as outputs."""

    @model_validator(mode="after")
    def _one_length(self) -> HRMTraining:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give steps or epochs, one of them")
        return self


def learning_rate_factor(recipe: HRMRecipe, step: int, steps: int) -> float:
    """Return the fraction of the rates that update `step` (from 0) of `steps` uses, as published.

    The published schedule counts updates from 1.
    """
    update = step + 1
    if update < recipe.warmup_steps:
        return update / recipe.warmup_steps
    progress = (update - recipe.warmup_steps) / max(1, steps - recipe.warmup_steps)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return recipe.least_rate + (1 - recipe.least_rate) * cosine
