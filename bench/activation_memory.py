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
TOKENS = (64, 128)


def saved_bytes(model: LoopedGPT, tokens: int) -> int:
    """Return the bytes that one visit of a block keeps."""
    kept: dict[int, int] = {}
    stored = [*model.parameters(), model.cos, model.sin]
    apart = {tensor.untyped_storage().data_ptr() for tensor in stored}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in apart:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.randn(1, tokens, model.config.backbone.hidden_size, requires_grad=True)
    with (
        torch.autocast("cpu", torch.bfloat16),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        y = model.blocks[0](x, model.cos[:tokens], model.sin[:tokens])
    assert y.requires_grad
    return sum(kept.values())


def line(model: LoopedGPT) -> tuple[float, float]:
    """Return bytes a token, and bytes whatever the tokens (weights cast to bf16)."""
    few, many = (saved_bytes(model, tokens) for tokens in TOKENS)
    slope = (many - few) / (TOKENS[1] - TOKENS[0])
    return slope, few - slope * TOKENS[0]


def main() -> None:
    """Print the table."""
    print("bytes kept by a visit of a block: a token, and whatever the tokens")
    for name, shape in SHAPES.items():
        backbone = Backbone(layers=1, context_length=TOKENS[1], vocab_size=256, **shape)
        scaling = Scaling(alpha_exponent=0.5, beta_exponent=0.5)
        for backend in (None, "aot_eager_decomp_partition"):
            model = build(GPTConfig(backbone=backbone, loops=1, scaling=scaling), seed=0)
            if backend:
                torch._dynamo.config.automatic_dynamic_shapes = False
                model.compile_blocks(backend=backend)
            each, whole = line(model)
            print(f"{name:<8}{'compiled' if backend else 'eager':<10}{each:>10,.0f}{whole:>14,.0f}")


if __name__ == "__main__":
    main()
