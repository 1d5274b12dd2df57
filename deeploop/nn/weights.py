"""Weights from a file into a module."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from deeploop.errors import UserError


def load_weights(
    module: nn.Module, path: Path, device: torch.device | str = "cpu", in_place: bool = True
) -> None:
    """Load weights that fit a module exactly; the file is read onto `device`.

    Args:
        module: its parameters take the file's values.
        path: a safetensors file.
        device: the module's.
        in_place: copy into the parameters that are there, in their precision. Else the file's
            tensors become the parameters: on a CPU pages of the file, in memory once.

    Raises:
        UserError: the file is not safetensors, or holds other names or shapes.
    """
    try:
        module.load_state_dict(load_file(path, device=str(device)), assign=not in_place)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: not a whole safetensors file: {error}") from error
    except RuntimeError as error:
        reason = str(error).split("\n\t")[-1].strip()
        raise UserError(f"{path} does not fit the model's configuration: {reason}") from error
