"""Bytes that a training step keeps for its backward pass, per token, block and round.

    python -m bench.activation_memory

Counted from what autograd saves (views of one storage once, parameters apart), under bf16 autocast,
for a block as it is and as the compiler partitions it; both are proportional to tokens, so a
short sequence on a CPU tells what a GPU needs. `docs/training.md` builds on these numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.gpt import LoopedGPT, build

SHAPES = {
    "small": {"hidden_size": 768, "heads": 6},
    "medium": {"hidden_size": 1024, "heads": 8},
}
TOKENS = 64


def saved_bytes(model: LoopedGPT) -> int:
    """Return the bytes that one round keeps."""
    kept: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.randn(1, TOKENS, model.config.backbone.hidden_size, requires_grad=True)
    with (
        torch.autocast("cpu", torch.bfloat16),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        y = model.blocks[0](x, model.cos, model.sin)
    shared = model.cos.numel() * 4 + model.sin.numel() * 4
    casts = sum(value.numel() for value in model.blocks[0].parameters() if value.ndim == 2) * 2
    assert y.requires_grad
    return sum(kept.values()) - shared - casts


def main() -> None:
    """Print the table."""
    print(f"{'':<10}{'eager':>10}{'compiled':>10}  bytes a token, block and round")
    for name, shape in SHAPES.items():
        backbone = Backbone(layers=1, context_length=TOKENS, vocab_size=256, **shape)
        scaling = Scaling(alpha_exponent=0.5, beta_exponent=0.5)
        model = build(GPTConfig(backbone=backbone, loops=1, scaling=scaling), seed=0)
        eager = saved_bytes(model)
        model.compile_blocks(backend="aot_eager_decomp_partition")
        compiled = saved_bytes(model)
        print(f"{name:<10}{eager / TOKENS:>10,.0f}{compiled / TOKENS:>10,.0f}")


if __name__ == "__main__":
    main()
