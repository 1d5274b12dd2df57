"""Optimizers, and what the loop asks of them: a peak rate per group, a state that can be saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from deeploop.training.config import Recipe


def adamw(module: nn.Module, recipe: Recipe) -> Optimizer:
    """Return fused AdamW; matrices and the embedding decay, gains do not."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {
            "params": [parameter for parameter in trained if parameter.ndim >= 2],
            "weight_decay": recipe.weight_decay,
        },
        {"params": [parameter for parameter in trained if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = AdamW(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.epsilon,
        fused=True,
    )
    return with_peak_rates(optimizer)


def with_peak_rates(optimizer: Optimizer) -> Optimizer:
    """Remember every group's present rate as its peak, `peak_lr`."""
    for group in optimizer.param_groups:
        group["peak_lr"] = group["lr"]
    return optimizer


def set_rates(optimizers: Sequence[Optimizer], factor: float) -> None:
    """Set every group's rate to `factor` times its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * factor


def optimizer_tensors(optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """Return all state as named tensors; settings are the configuration's and are left out."""
    return {
        f"{number}.{parameter}.{name}": value if torch.is_tensor(value) else torch.tensor(value)
        for number, optimizer in enumerate(optimizers)
        for parameter, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def load_optimizer_tensors(optimizers: Sequence[Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Take back what `optimizer_tensors` returned."""
    for number, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            owner, parameter, name = key.split(".", 2)
            if int(owner) == number:
                state.setdefault(int(parameter), {})[name] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
