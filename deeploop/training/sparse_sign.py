"""SignSGD on the rows of a large embedding table that a batch touched.

With gradients this sparse Adam would move a row by its sign anyway; and only touched rows decay.
The table is no parameter: a step borrows copies of the rows it needs, as leaves of autograd, and
the optimizer reads the leaves' gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deeploop.training.world import World


class SparseSignSGD(torch.optim.Optimizer):
    """SignSGD with decoupled weight decay on the borrowed rows of one table; keeps no state."""

    def __init__(self, table: Tensor, lr: float, weight_decay: float, world: World) -> None:
        super().__init__([table], {"lr": lr, "weight_decay": weight_decay})
        self.table, self.world = table, world
        self.borrowed: list[tuple[Tensor, Tensor]] = []

    def borrow(self, rows: Tensor) -> Tensor:
        """Return copies of `rows` of the table, `[n, size]`, as a leaf that receives gradient.

        Over the processes of a run the calls of one step must follow the order of global rows.
        """
        leaf = self.table.index_select(0, rows).requires_grad_()
        self.borrowed.append((rows, leaf))
        return leaf

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update every row that any process borrowed since the last step."""
        if closure is not None:
            raise ValueError("SparseSignSGD does not call closures")
        rows = torch.cat([rows for rows, _ in self.borrowed])
        gradients = torch.cat([_gradient(leaf) for _, leaf in self.borrowed])
        group = self.param_groups[0]
        rows, gradients = self.world.gather(rows), self.world.gather(gradients)
        sign_step(self.table, rows, gradients, group["lr"], group["weight_decay"])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget what was borrowed."""
        self.borrowed.clear()


@torch.no_grad()
def sign_step(
    table: Tensor, rows: Tensor, gradients: Tensor, lr: float, weight_decay: float
) -> None:
    """Update `table` in place: w <- (1 - lr wd) w - lr sign(sum of the row's gradients).

    Args:
        table: `[identifiers, size]`.
        rows: `[n]`, which row each gradient belongs to; a row may come more than once.
        gradients: `[n, size]`.
        lr: step size.
        weight_decay: decoupled, on the touched rows only.
    """
    touched, position = rows.long().unique(return_inverse=True)
    total = gradients.new_zeros(len(touched), gradients.shape[1])
    total.index_add_(0, position, gradients)
    values = table.index_select(0, touched).mul_(1 - lr * weight_decay)
    table.index_copy_(0, touched, values.sub_(total.sign_(), alpha=lr))


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
