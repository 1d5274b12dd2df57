from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.gpt import LoopedGPT, build

torch.set_num_threads(1)

MakeModel = Callable[..., LoopedGPT]


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    """Write a small model folder; embeddings are large, so that choices get distinct scores."""

    def make(folder: Path, tokenizer: str = "bytes", seed: int = 0, **shape: int) -> LoopedGPT:
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

    return make


@pytest.fixture(scope="session")
def byte_model(make_model: MakeModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("byte_model")
    make_model(folder)
    return folder


@pytest.fixture(scope="session")
def gpt2_model(make_model: MakeModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2_model")
    make_model(folder, "gpt2", vocab_size=50304)
    return folder
