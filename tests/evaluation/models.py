"""Small model folders to evaluate."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import save_file

from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.gpt import LoopedGPT, build


def make_model(folder: Path, tokenizer: str = "bytes", seed: int = 0, **shape: int) -> LoopedGPT:
    """Write a model folder; its embeddings are large, so that choices get distinct scores."""
    shape = {"hidden_size": 32, "layers": 1, "heads": 2, "vocab_size": 256} | shape
    config = GPTConfig(
        backbone=Backbone(**{"context_length": 256, "embedding_std": 0.3, **shape}),
        loops=2,
        scaling=Scaling(alpha_exponent=0.5, beta_exponent=0.5),
    )
    model = build(config, seed)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model.state_dict(), folder / "model.safetensors")
    description = {"config": config.model_dump(), "tokenizer": tokenizer}
    (folder / "model.json").write_text(json.dumps(description))
    return model
