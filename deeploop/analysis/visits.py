"""Each visit of a shared block with its own alias of the shared tensors.

An alias is a view, so no weight is copied; autograd sees R tensors where the model has one, and
their gradients add up to the tied gradient exactly, in any order of summation that autograd uses.
Works for any model that calls its blocks as modules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call

from deeploop.errors import UserError

Aliases = Mapping[str, Tensor]
"""A block's parameters by their names in it."""
Directions = Mapping[str, Sequence[Aliases]]
"""Block -> visit -> a direction for each parameter of the block."""


class Visited(nn.Module):
    """A block that keeps the aliases and the output of each visit that carries gradient.

    Visits under `torch.no_grad` (HRM's earlier cycles) pass through unseen: they are not part of
    the gradient-visible graph.
    """

    def __init__(self, block: nn.Module, directions: Sequence[Aliases] | None = None) -> None:
        """Wrap a block; with `directions`, visit r is a dual number along the r-th of them."""
        super().__init__()
        self.block = block
        self.directions = directions
        self.visits: list[dict[str, Tensor]] = []
        self.outputs: list[Tensor] = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the block as it would have been called."""
        if not torch.is_grad_enabled():
            return self.block(*args, **kwargs)
        aliases = {name: p.view_as(p) for name, p in self.block.named_parameters()}
        if self.directions is not None:
            along = self.directions[len(self.visits)]
            aliases = {name: forward_ad.make_dual(p, along[name]) for name, p in aliases.items()}
        self.visits.append(aliases)
        output = functional_call(self.block, aliases, args, kwargs)
        self.outputs.append(output.detach())
        return output


@contextmanager
def visited(
    model: nn.Module, blocks: Sequence[str], directions: Directions | None = None
) -> Iterator[Mapping[str, Visited]]:
    """Wrap the named blocks while the context lasts; the model is left as it was.

    Args:
        model: the model.
        blocks: names of sub-modules, e.g. `blocks.0`.
        directions: for forward derivatives, see `Visited`.

    Raises:
        UserError: the model has no such block.
    """
    wrapped: dict[str, Visited] = {}
    try:
        for name in blocks:
            along = None if directions is None else directions[name]
            wrapped[name] = Visited(_block(model, name), along)
            model.set_submodule(name, wrapped[name])
        yield wrapped
    finally:
        for name, wrapper in wrapped.items():
            model.set_submodule(name, wrapper.block)


def _block(model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise UserError(f"the model has no block '{name}'") from None


def visit_gradients(
    scalar: Tensor, wrapped: Mapping[str, Visited], keep_graph: bool = False
) -> dict[str, list[dict[str, Tensor]]]:
    """Return block -> visit -> parameter -> gradient of `scalar` with respect to that visit alone.

    Args:
        scalar: a loss, or a projection of the output.
        wrapped: what `visited` gave while `scalar` was computed.
        keep_graph: another call follows.
    """
    aliases = [
        alias
        for wrapper in wrapped.values()
        for visit in wrapper.visits
        for alias in visit.values()
    ]
    found = iter(
        torch.autograd.grad(
            scalar, aliases, retain_graph=keep_graph, allow_unused=True, materialize_grads=True
        )
    )
    return {
        name: [{parameter: next(found) for parameter in visit} for visit in wrapper.visits]
        for name, wrapper in wrapped.items()
    }
