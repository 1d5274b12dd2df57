"""What a training did, step by step: deterministic numbers only, and whole after a resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class History:
    """Columns with one entry a step, and the validations."""

    columns: dict[str, list[float]] = field(default_factory=dict)
    """`loss`, `grad_norm` (of the mean gradient, before clipping), `learning_rate`, and the
    task's own; entry s belongs to update s (from 0)."""
    validations: list[dict[str, float]] = field(default_factory=list)
    """Each with `step`, the number of updates made before it."""

    def __len__(self) -> int:
        return len(self.columns.get("loss", ()))

    def append(self, values: Mapping[str, float]) -> None:
        """Add one step's values; every step has the same columns."""
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)

    def mean_of_last(self, column: str, steps: int) -> float:
        """Return the mean of a column over its last `steps` entries, or over all if fewer."""
        last = self.columns[column][-steps:]
        return sum(last) / len(last)

    def tensors(self) -> dict[str, Tensor]:
        """Return the columns, float64, for a checkpoint."""
        return {
            name: torch.tensor(values, dtype=torch.float64) for name, values in self.columns.items()
        }

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], validations: list[Any]) -> History:
        """Return what `tensors` and a copy of `validations` were taken from."""
        return cls({name: values.tolist() for name, values in tensors.items()}, validations)

    def as_json(self) -> dict[str, Any]:
        """Return `{"step": [1, 2, ...], <column>: [...], "validations": [...]}`.

        Numbers are rounded to eight significant digits: what fp32 holds.
        """
        rounded = {
            name: [float(f"{value:.8g}") for value in values]
            for name, values in self.columns.items()
        }
        steps = list(range(1, len(self) + 1))
        return {"step": steps, **rounded, "validations": self.validations}
