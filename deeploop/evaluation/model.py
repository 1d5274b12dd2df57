"""Opening a model folder for inference."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from deeploop.errors import UserError
from deeploop.nn.config import GPTConfig
from deeploop.nn.gpt import LoopedGPT

WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"


@dataclass(frozen=True)
class ModelDescription:
    """What `model.json` says."""

    config: GPTConfig
    tokenizer: str

    @property
    def window(self) -> int:
        """The most tokens the model reads at once."""
        return self.config.backbone.context_length


def describe(folder: Path) -> ModelDescription:
    """Return a model folder's description.

    Raises:
        UserError: it is no model folder.
    """
    path = folder / DESCRIPTION
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        config = GPTConfig.model_validate(content["config"])
        return ModelDescription(config, content["tokenizer"])
    except FileNotFoundError as error:
        raise UserError(f"{folder} is no model folder: no {DESCRIPTION}") from error
    except (ValueError, KeyError, TypeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise UserError(f"{path} does not describe a looped GPT: {reason}") from error


def open_model(folder: Path, device: torch.device | str) -> LoopedGPT:
    """Return the model of a folder, on a device, ready for inference.

    Raises:
        UserError: weights are missing, or are those of another configuration.
    """
    config = describe(folder).config
    path = folder / WEIGHTS
    if not path.is_file():
        raise UserError(f"{folder} is no model folder: no {WEIGHTS}")
    with torch.device("meta"):
        names = set(LoopedGPT(config).state_dict())
    with torch.device(device):
        model = LoopedGPT(config)
    weights = load_file(path, device=str(device))
    try:
        model.load_state_dict(weights, assign=True)  # no second copy
    except RuntimeError as error:
        wrong = sorted(names ^ set(weights)) or ["shapes differ"]
        raise UserError(f"{path} does not fit {DESCRIPTION}: {', '.join(wrong[:3])}") from error
    return model.eval().requires_grad_(False)
