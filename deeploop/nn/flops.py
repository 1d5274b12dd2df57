"""Model FLOPs of a looped GPT: loops counted, recomputation not, as in PaLM's MFU."""

from __future__ import annotations

from deeploop.nn.config import GPTConfig
from deeploop.nn.init import matrices


def training_flops_per_token(config: GPTConfig) -> float:
    """Return FLOPs of forward and backward for one token at full context.

    6 for every weight each time it is used (R times for the blocks, once for the head), and
    12 * K * R * hidden_size * context_length for attention, counted in full (not its causal half).
    """
    shape = config.backbone
    sizes = {entry.name: entry.shape[0] * entry.shape[1] for entry in matrices(config)}
    head = sizes.pop("embedding")
    weights = 6.0 * (config.loops * sum(sizes.values()) + head)
    visits = shape.layers * config.loops
    return weights + 12.0 * visits * shape.hidden_size * shape.context_length
