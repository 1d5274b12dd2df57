"""AdamATan2 as in adam-atan2 0.0.3, HRM's optimizer, in plain PyTorch.

The update is scale-free: lr / (1 - beta1^t) * atan2(m, sqrt(v / (1 - beta2^t))). Note that the
first moment's bias correction stands outside the arc tangent, and that there is no constant
inside or before it: the package adam-atan2-pytorch uses another formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class AdamATan2(torch.optim.Optimizer):
    """Adam with an arc tangent in place of division and epsilon; decoupled weight decay."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float | Tensor = 1e-4,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.1,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "step": 0})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        if closure is not None:
            raise ValueError("AdamATan2 does not call closures")
        for group in self.param_groups:
            group["step"] += 1
            _update(*self._moments(group), group)

    def _moments(self, group: dict[str, Any]) -> tuple[list[Tensor], ...]:
        params = [p for p in group["params"] if p.grad is not None]
        for param in params:
            if param not in self.state:
                self.state[param] = {
                    "exp_avg": torch.zeros_like(param),
                    "exp_avg_sq": torch.zeros_like(param),
                }
        first = [self.state[p]["exp_avg"] for p in params]
        second = [self.state[p]["exp_avg_sq"] for p in params]
        return params, [p.grad for p in params], first, second


def _update(
    params: list[Tensor],
    grads: list[Tensor],
    first: list[Tensor],
    second: list[Tensor],
    group: dict[str, Any],
) -> None:
    if not params:
        return
    lr, (beta1, beta2), step = group["lr"], group["betas"], group["step"]
    torch._foreach_mul_(params, 1 - lr * group["weight_decay"])
    torch._foreach_lerp_(first, grads, 1 - beta1)
    torch._foreach_lerp_(second, torch._foreach_mul(grads, grads), 1 - beta2)
    # Equals sqrt(v) / sqrt(1 - beta2^t); sqrt before the division, as in the reference kernel.
    scale = torch._foreach_sqrt(second)
    torch._foreach_div_(scale, (1 - beta2**step) ** 0.5)
    for moment, width in zip(first, scale, strict=True):
        torch.atan2(moment, width, out=width)
    torch._foreach_add_(params, scale, alpha=-lr / (1 - beta1**step))
