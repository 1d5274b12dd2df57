"""What a training of the looped GPT on ARC is, beside its architecture.

Imports no torch: planning reads it.
"""

from __future__ import annotations

from pydantic import Field

from deeploop.stage import Section
from deeploop.training.config import Recipe
from deeploop.training.hrm_config import HRMValidation


class GridTraining(Section):
    """One training run, apart from architecture and data."""

    recipe: Recipe
    """`batch_sequences` counts rows: a puzzle's input and output each."""
    puzzle_learning_rate: float = Field(default=1e-2, ge=0)
    """Of SignSGD on the puzzle embedding, as HRM's; same schedule as the rest."""
    puzzle_weight_decay: float = Field(default=0.1, ge=0)
    steps: int = Field(gt=0)
    seed: int = Field(ge=0)
    validation: HRMValidation = HRMValidation()
    """Rows are scored with the right output before each token, which costs one forward."""
    snapshot_steps: tuple[int, ...] = ()
    """Updates after which weights are kept as outputs."""
