"""Weights from a file into a module."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from deeploop.errors import UserError


def load_weights(module: nn.Module, path: Path, device: torch.device | str = "cpu") -> None:
    """Load weights that fit a module exactly; the file is read onto `device`.

    Raises:
        UserError: the file is not safetensors, or holds other names or shapes.
    """
    try:
        module.load_state_dict(load_file(path, device=str(device)))
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: not a whole safetensors file: {error}") from error
    except RuntimeError as error:
        reason = str(error).split("\n\t")[-1].strip()
        raise UserError(f"{path} does not fit the model's configuration: {reason}") from error
