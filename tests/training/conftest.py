from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deeploop.text.shards import part_name, write_part

torch.set_num_threads(1)

VOCAB = 32


@pytest.fixture(scope="session")
def params() -> Callable[..., dict[str, Any]]:
    """Return what makes a run's parameters; its arguments override training settings."""
    return _params


def _params(**training: Any) -> dict[str, Any]:
    """Return the smallest model that still loops."""
    backbone = {
        "hidden_size": 16,
        "layers": 2,
        "heads": 2,
        "context_length": 16,
        "vocab_size": VOCAB,
        "embedding_std": 0.1,
    }
    recipe = {
        "learning_rate": 1e-3,
        "warmup_steps": 2,
        "decay_steps": 20,
        "batch_sequences": 4,
        "precision": "fp32",
    }
    recipe |= training.pop("recipe", {})
    return {
        "model": {
            "backbone": backbone,
            "loops": 3,
            "scaling": {"alpha_exponent": 0.5, "beta_exponent": 0.5},
        },
        "training": {
            "recipe": recipe,
            "steps": 12,
            "seed": 7,
            "validation": {"every_steps": 5, "tokens": 128},
        }
        | training,
    }


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Token shards of a language with structure: tokens follow one another, with slips."""
    folder = tmp_path_factory.mktemp("tokens")
    draw = np.random.Generator(np.random.PCG64(0))
    steps = np.where(draw.random(9000) < 0.7, 1, draw.integers(0, 5, 9000))
    stream = (np.cumsum(steps) % (VOCAB - 2)).astype(np.uint16)
    write_part(folder / part_name("train", 0), [stream[:5000]])
    write_part(folder / part_name("train", 1), [stream[5000:8000]])
    write_part(folder / part_name("validation", 0), [stream[8000:]])
    manifest = {"tokenizer": {"name": "bytes", "vocab_size": VOCAB}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
