"""Initial values of the looped GPT: which matrices there are, their spread, and who gets beta.

Queries, keys and values lie in one stored matrix, gate and up in another; here each is a matrix of
its own, as in the paper. The listing needs no torch, so planning can count weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deeploop.draws import draw_seed
from deeploop.nn.config import Backbone, BetaTargets, GPTConfig, padded

if TYPE_CHECKING:
    from torch import nn

BETA_MATRICES: dict[BetaTargets, frozenset[str]] = {
    "deepnorm": frozenset({"v", "o", "gate", "up", "down"}),
    "deepnorm_no_gate": frozenset({"v", "o", "up", "down"}),
    "output": frozenset({"o", "down"}),
}


@dataclass(frozen=True)
class Matrix:
    """One matrix of the model, as a rectangle of a stored parameter."""

    name: str
    """E.g. `blocks.3.attention.v`."""
    shape: tuple[int, int]
    """[out, in]."""
    parameter: str
    """The stored parameter that holds it, e.g. `blocks.3.attention.qkv`."""
    row: int
    """Where it starts there; it starts at column 0."""
    std: float
    """Standard deviation before beta."""
    gain: float
    """beta, or 1 where beta does not apply."""


def matrices(config: GPTConfig) -> list[Matrix]:
    """Return all matrices in stored order; their sizes sum to the weights the paper counts."""
    shape = config.backbone
    size = (shape.vocab_size, shape.hidden_size)
    found = [Matrix("embedding", size, "embedding", 0, shape.embedding_std, 1.0)]
    for block in range(shape.layers):
        found.extend(_of_block(f"blocks.{block}", shape, config.residual_scale.beta))
    return found


def weights_in_matrices(config: GPTConfig) -> int:
    """Return the number of weights, norm gains and padding apart; the tied head counts once."""
    return sum(rows * columns for rows, columns in (entry.shape for entry in matrices(config)))


def initialize(model: nn.Module, config: GPTConfig, seed: int) -> None:
    """Fill the model's matrices; what no matrix covers (padding) is zero.

    Every matrix has its own draw: base and DeepLoop of one seed start from the same numbers up to
    beta, whatever the loops, the padding or the device.
    """
    import torch

    stored = dict(model.named_parameters())
    with torch.no_grad():
        for entry in matrices(config):
            target = stored[entry.parameter]
            if entry.row == 0:
                target.zero_()
            rows, columns = entry.shape
            draw = torch.Generator().manual_seed(draw_seed(seed, entry.name))
            values = torch.randn(rows, columns, generator=draw) * (entry.std * entry.gain)
            target[entry.row : entry.row + rows, :columns] = values.to(target)


def table(config: GPTConfig) -> list[str]:
    """Return lines that show matrix, shape, initial deviation and gain; blocks are alike."""
    scale = config.residual_scale
    lines = [
        f"alpha {scale.alpha:.4f}, beta {scale.beta:.4f}, "
        f"{config.backbone.layers} blocks x {config.loops} loops, "
        f"{weights_in_matrices(config):,} weights in matrices",
        f"{'matrix':<24}{'shape':>16}{'std':>12}{'gain':>10}",
    ]
    for entry in matrices(config):
        if entry.name.startswith(("embedding", "blocks.0.")):
            name = entry.name.replace("blocks.0.", "blocks.*.")
            size = f"{entry.shape[0]} x {entry.shape[1]}"
            lines.append(f"{name:<24}{size:>16}{entry.std * entry.gain:>12.3e}{entry.gain:>10.4f}")
    return lines


def _of_block(block: str, shape: Backbone, beta: float) -> Iterator[Matrix]:
    size, width = shape.hidden_size, shape.ffn_width
    std = shape.init_gain / size**0.5
    scaled = BETA_MATRICES[shape.beta_targets]
    parts = (
        ("attention.q", (size, size), "attention.qkv", 0),
        ("attention.k", (size, size), "attention.qkv", size),
        ("attention.v", (size, size), "attention.qkv", 2 * size),
        ("attention.o", (size, size), "attention.o", 0),
        ("ffn.gate", (width, size), "ffn.gate_up", 0),
        ("ffn.up", (width, size), "ffn.gate_up", padded(width)),
        ("ffn.down", (size, width), "ffn.down", 0),
    )
    for name, extent, parameter, row in parts:
        gain = beta if name.rpartition(".")[2] in scaled else 1.0
        yield Matrix(f"{block}.{name}", extent, f"{block}.{parameter}", row, std, gain)
