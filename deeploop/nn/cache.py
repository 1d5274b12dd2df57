"""Keys and values of earlier positions, one slot for every visit of every block.

A looped model reads other keys in every round, so exact decoding needs K * R slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Cache(Protocol):
    """What attention asks of a cache; Hugging Face's caches do it too."""

    def update(self, keys: Tensor, values: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        """Append [batch, heads, new, head_size] to a slot and return all that it holds now."""


@dataclass(frozen=True)
class Past:
    """What one visit of a block sees of earlier positions."""

    cache: Cache
    slot: int
    """round * K + block."""
    mask: Tensor | None
    """Which held positions each new one sees, bool [..., new, held]; all of them when absent."""


class Uncached:
    """Keeps nothing: a sequence seen in one piece, under a mask of its own."""

    def update(self, keys: Tensor, values: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        """See `Cache`."""
        return keys, values


class GrowingCache:
    """Slots that grow by doubling, so that a step does not copy what is there."""

    def __init__(self, slots: int) -> None:
        self._keys: list[Tensor | None] = [None] * slots
        self._values: list[Tensor | None] = [None] * slots
        self._lengths = [0] * slots

    @property
    def length(self) -> int:
        """Positions held."""
        return self._lengths[-1]

    def update(self, keys: Tensor, values: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        """See `Cache`."""
        start, stop = self._lengths[slot], self._lengths[slot] + keys.shape[2]
        self._lengths[slot] = stop
        self._keys[slot] = held_keys = _with_room(self._keys[slot], keys, start, stop)
        self._values[slot] = held_values = _with_room(self._values[slot], values, start, stop)
        return held_keys[:, :, :stop], held_values[:, :, :stop]


def _with_room(held: Tensor | None, new: Tensor, start: int, stop: int) -> Tensor:
    if held is None or held.shape[2] < stop:
        batch, heads, _, size = new.shape
        grown = new.new_empty(batch, heads, max(2 * start, stop), size)
        if held is not None:
            grown[:, :, :start] = held[:, :, :start]
        held = grown
    held[:, :, start:stop] = new
    return held


def decoding_mask(new: int, held: int, device: torch.device) -> Tensor:
    """Say which of `held` positions each of the last `new` may see: bool [new, held]."""
    ones = torch.ones(new, held, dtype=torch.bool, device=device)
    return ones.tril(diagonal=held - new)
