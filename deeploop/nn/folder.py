"""Model folders: what a training leaves, `model.json` and `model.safetensors`, opened again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError

from deeploop.errors import UserError
from deeploop.nn.config import GPTConfig
from deeploop.nn.gpt import LoopedGPT
from deeploop.nn.weights import load_weights

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
        UserError: it is no model folder, or one of another architecture.
    """
    path = folder / DESCRIPTION
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        config = GPTConfig.model_validate(content["config"])
        return ModelDescription(config, content["tokenizer"])
    except FileNotFoundError as error:
        raise UserError(f"{folder} is no model folder: no {DESCRIPTION}") from error
    except OSError as error:
        raise UserError(f"{folder} is no model folder: {DESCRIPTION}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise UserError(f"{path} does not describe a looped GPT: {reason}") from error


def open_model(
    folder: Path | str, device: torch.device | str = "cpu", weights: str = WEIGHTS
) -> LoopedGPT:
    """Return the model of a folder, on a device, ready for inference.

    Also `deeploop.load`.

    Args:
        folder: outputs of a training of a language model.
        device: where the model goes.
        weights: file in the folder; `snapshots/step-<n>.safetensors` for the model of a step that
            the plan names.

    Raises:
        UserError: weights are missing, damaged, or those of another configuration.
    """
    folder = Path(folder)
    config = describe(folder).config
    if not (folder / weights).is_file():
        raise UserError(f"{folder} is no model folder: no {weights}")
    with torch.device(device):
        model = LoopedGPT(config)
    load_weights(model, folder / weights, device, in_place=False)
    model.float()  # a training in another precision is opened as any other
    # weights go on requiring gradients: autocast keeps bf16 copies, for all R rounds, of such only
    return model.eval()
