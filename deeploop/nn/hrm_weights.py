"""HRM's weights on disk: our folders, and checkpoints of the published code.

A finished model is a folder with `model.json` and `model.safetensors`. A published checkpoint is
what `torch.save` wrote: it is unpickled with `weights_only`, so nothing in it is ever executed.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from deeploop.errors import UserError
from deeploop.nn.hrm import HRM
from deeploop.nn.hrm_config import FFN_MULTIPLE, HRMConfig, first_fault

CONFIG_FILE = "model.json"
WEIGHTS_FILE = "model.safetensors"
ARCHITECTURE = "hrm"

PREFIXES = ("_orig_mod.", "module.", "model.", "inner.")
"""What wrappers put before a published name: compilation, data parallelism, loss head, halting."""
PUZZLE_TABLE = "puzzle_emb.weights"
OTHER_BUILD = (
    "trained on a build with another number of puzzle identifiers, which depends on the sets, the "
    "augmentations and the order of reading (`order: sorted` or `reversed`); take a build of the "
    "same settings"
)


def save_model(folder: Path, config: HRMConfig, weights: Mapping[str, Tensor]) -> None:
    """Write a model folder; the same model gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    described = {"architecture": ARCHITECTURE, "config": config.model_dump(mode="json")}
    text = json.dumps(described, indent=2, sort_keys=True) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    save_file(contiguous, folder / WEIGHTS_FILE)


def load_model(folder: Path, device: torch.device | str = "cpu") -> HRM:
    """Open a model folder, ready for prediction.

    Raises:
        UserError: when it holds no HRM, or one whose weights do not fit its configuration.
    """
    model = HRM(_read_config(folder / CONFIG_FILE)).to(device)
    fill(model, _read_safetensors(folder / WEIGHTS_FILE), str(folder / WEIGHTS_FILE))
    return model.eval()


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Read a published checkpoint (or a safetensors file) and return its weights by plain name.

    Raises:
        UserError: when the file is damaged, is no dictionary of tensors, or is a pickle that
            would run code; nothing of it is executed.
    """
    if path.suffix == ".safetensors":
        return plain_names(_read_safetensors(path))
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{path}: refused, it is not a checkpoint of plain tensors and may hold code; "
            f"nothing was executed ({reason})"
        ) from None
    except (OSError, EOFError, RuntimeError, BadZipFile, ValueError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: not a readable checkpoint ({reason})") from None
    if not isinstance(loaded, dict) or not all(torch.is_tensor(v) for v in loaded.values()):
        raise UserError(f"{path}: expected a state dictionary, names to tensors")
    return plain_names(loaded)


def plain_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights without the prefixes that the published wrappers put before names."""
    return {_plain(name): tensor for name, tensor in weights.items()}


def fill(model: HRM, weights: Mapping[str, Tensor], source: str) -> None:
    """Copy `weights` into a model of exactly their names and shapes.

    Raises:
        UserError: naming the first difference, and how many there are.
    """
    faults = differences(model, weights)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise UserError(f"{source} does not fit the model: {faults[0]}{more}")
    model.load_state_dict(dict(weights))


def differences(model: HRM, weights: Mapping[str, Tensor]) -> list[str]:
    """Return one line for each name or shape in which `weights` differ from the model's."""
    own = model.state_dict()
    lines = [f"{name} is missing" for name in own if name not in weights]
    lines += [f"{name} is not a weight of this model" for name in weights if name not in own]
    for name, tensor in own.items():
        if name in weights and weights[name].shape != tensor.shape:
            theirs, ours = list(weights[name].shape), list(tensor.shape)
            lines.append(f"{name} is {theirs}, expected {ours}" + _explained(name))
    return lines


def _explained(name: str) -> str:
    if name != PUZZLE_TABLE:
        return ""
    return f": the checkpoint was {OTHER_BUILD}"


def inferred_config(weights: Mapping[str, Tensor], given: Mapping[str, Any]) -> HRMConfig:
    """Return a configuration whose sizes are read off `weights`.

    Args:
        weights: by plain name.
        given: settings that shapes do not show (heads, cycles, halting); defaults are the
            published ARC configuration's.

    Raises:
        UserError: when the weights are not an HRM's, or a setting is not one.
    """
    try:
        vocabulary, hidden = weights["embed_tokens.embedding_weight"].shape
        ffn_hidden = weights["H_level.layers.0.mlp.down_proj.weight"].shape[1]
    except (KeyError, ValueError) as error:
        raise UserError(f"these are not the weights of an HRM: {error} is missing") from None
    table = weights.get(PUZZLE_TABLE)
    sizes: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "expansion": _expansion(ffn_hidden, hidden),
        "h_layers": _layers(weights, "H_level"),
        "l_layers": _layers(weights, "L_level"),
        "identifiers": 1 if table is None else table.shape[0],
        "puzzle_embedding_size": 0 if table is None else table.shape[1],
        "positions": "learned" if "embed_pos.embedding_weight" in weights else "rope",
        "sequence_length": 900,
    }
    try:
        return HRMConfig(**(sizes | dict(given)))
    except ValidationError as error:
        raise UserError(f"HRM configuration: {first_fault(error)}") from None


def _layers(weights: Mapping[str, Tensor], level: str) -> int:
    return sum(name.startswith(f"{level}.") and "o_proj" in name for name in weights)


def _expansion(ffn_hidden: int, hidden: int) -> float:
    """Return an expansion that rounds up to `ffn_hidden`: 4, if that does."""
    lowest = (ffn_hidden - FFN_MULTIPLE) * 1.5 / hidden
    highest = ffn_hidden * 1.5 / hidden
    return 4.0 if lowest < 4 <= highest else highest


def _plain(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: not a readable safetensors file ({error})") from None


def _read_config(path: Path) -> HRMConfig:
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        if described["architecture"] != ARCHITECTURE:
            raise UserError(f"{path}: holds a {described['architecture']}, not an {ARCHITECTURE}")
        return HRMConfig(**described["config"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the configuration of an HRM ({error})") from None
