"""AdamATan2 as in adam-atan2 0.0.3, HRM's optimizer, in plain PyTorch.

The update is scale-free: lr / (1 - beta1^t) * atan2(m, sqrt(v / (1 - beta2^t))). Note that the
first moment's bias correction stands outside the arc tangent, and that there is no constant
inside or before it: the package adam-atan2-pytorch uses another formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

MOMENTS = ("exp_avg", "exp_avg_sq")


class AdamATan2(torch.optim.Optimizer):
    """Adam with an arc tangent in place of division and epsilon; decoupled weight decay."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float | Tensor = 1e-4,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.1,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        if closure is not None:
            raise ValueError("AdamATan2 does not call closures")
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if params:
                states = [self._state(param) for param in params]
                _update(params, states, group)

    def _state(self, param: Tensor) -> dict[str, Tensor]:
        if param not in self.state:
            self.state[param] = {name: torch.zeros_like(param) for name in MOMENTS}
            self.state[param]["step"] = torch.zeros(())  # on the CPU, like AdamW's
        return self.state[param]


def _update(params: list[Tensor], states: list[dict[str, Tensor]], group: dict[str, Any]) -> None:
    lr, (beta1, beta2) = group["lr"], group["betas"]
    for state in states:
        state["step"] += 1
    step = states[0]["step"].item()
    first, second = ([state[name] for state in states] for name in MOMENTS)
    gradients = [param.grad for param in params if param.grad is not None]
    torch._foreach_mul_(params, 1 - lr * group["weight_decay"])
    torch._foreach_lerp_(first, gradients, 1 - beta1)
    torch._foreach_lerp_(second, torch._foreach_mul(gradients, gradients), 1 - beta2)
    # The square root before the division, as in the reference kernel.
    updates = torch._foreach_sqrt(second)
    torch._foreach_div_(updates, math.sqrt(1 - beta2**step))
    for moment, update in zip(first, updates, strict=True):
        torch.atan2(moment, update, out=update)
    torch._foreach_add_(params, updates, alpha=-lr / (1 - beta1**step))
