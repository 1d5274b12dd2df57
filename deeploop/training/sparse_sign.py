"""SignSGD on the rows of a large embedding table that a batch touched.

With gradients this sparse Adam would move a row by its sign anyway; and only touched rows decay.
The table itself is no parameter: a step copies the rows it needs into a leaf, and hands the
leaf's gradient here.
"""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def sign_step(
    table: Tensor, rows: Tensor, gradients: Tensor, lr: float, weight_decay: float
) -> None:
    """Update `table` in place: w <- (1 - lr wd) w - lr sign(sum of the row's gradients).

    Args:
        table: `[identifiers, size]`.
        rows: `[n]`, which row each gradient belongs to; a row may come more than once.
        gradients: `[n, size]`. Over several processes: those of all processes, in global order.
        lr: step size.
        weight_decay: decoupled, on the touched rows only.
    """
    touched, position = rows.long().unique(return_inverse=True)
    total = gradients.new_zeros(len(touched), gradients.shape[1])
    total.index_add_(0, position, gradients)
    values = table.index_select(0, touched).mul_(1 - lr * weight_decay)
    table.index_copy_(0, touched, values.sub_(total.sign_(), alpha=lr))
