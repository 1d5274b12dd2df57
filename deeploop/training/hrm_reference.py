"""Reference files of HRM: one training of a few steps, recorded tensor by tensor.

A safetensors file whose metadata holds the configuration (`cfg`, JSON, the published code's keys)
and the optimizers' settings, and whose tensors hold, for each step, what went in (`step0.batch.*`)
and what came out. `deeploop.training.hrm_check` replays one.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from deeploop.errors import UserError
from deeploop.nn.hrm import States
from deeploop.nn.hrm_config import HRMConfig, from_published
from deeploop.nn.hrm_halting import Batch, Carry

MODEL = "model.inner."
"""Prefix of the model's weights."""
BATCH_NAMES = ("inputs", "labels", "puzzle_identifiers")


@dataclass(frozen=True)
class Reference:
    """A reference file, read."""

    config: HRMConfig
    tensors: Mapping[str, Tensor]
    lr: float
    weight_decay: float
    betas: tuple[float, float]
    puzzle_lr: float
    puzzle_weight_decay: float
    draws_seed: int
    """Of the generator that the exploration draws came from."""

    @property
    def steps(self) -> int:
        """Number of recorded training steps."""
        return sum(f"step{step}.loss" in self.tensors for step in range(len(self.tensors)))

    def tensor(self, name: str) -> Tensor:
        """Return one tensor.

        Raises:
            UserError: when the file lacks it.
        """
        if name not in self.tensors:
            raise UserError(f"the reference file has no tensor {name}")
        return self.tensors[name]

    def batch(self, prefix: str) -> Batch:
        """Return the batch recorded under `prefix`."""
        return Batch(*(self.tensor(prefix + name) for name in BATCH_NAMES))

    def carry(self, step: int) -> Carry:
        """Return what was carried out of a step."""
        prefix = f"step{step}.carry."
        states = States(self.tensor(prefix + "z_H"), self.tensor(prefix + "z_L"))
        steps, halted = self.tensor(prefix + "steps"), self.tensor(prefix + "halted").bool()
        return Carry(states, steps, halted, self.batch(prefix + "current."))

    def weights(self, prefix: str) -> dict[str, Tensor]:
        """Return the model's weights recorded under `prefix`, by our names."""
        start = prefix + MODEL
        return {
            name.removeprefix(start): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(start)
        }


def read_reference(path: Path) -> Reference:
    """Read a reference file.

    Raises:
        UserError: when it is not one; the message names the file and what is missing.
    """
    tensors, metadata = _read(path)
    if "cfg" not in metadata:
        raise UserError(f"{path}: no `cfg` in its metadata, so this is no HRM reference file")
    try:
        return Reference(
            config=from_published(json.loads(metadata["cfg"])),
            tensors=tensors,
            lr=_setting(metadata, "lr", 1e-4),
            weight_decay=_setting(metadata, "wd", 0.1),
            betas=_setting(metadata, "betas", (0.9, 0.95)),
            puzzle_lr=_setting(metadata, "emb_lr", 1e-2),
            puzzle_weight_decay=_setting(metadata, "emb_wd", 0.1),
            draws_seed=_setting(metadata, "draws_seed", 1234),
        )
    except (UserError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: not a readable safetensors file ({error})") from None


def _setting(
    metadata: Mapping[str, str],
    name: str,
    default: Any,
    parse: Callable[[str], Any] = ast.literal_eval,
) -> Any:
    value = parse(metadata[name]) if name in metadata else default
    if not isinstance(value, (int, float, tuple)):
        raise ValueError(f"metadata {name} is {value!r}, not a number")
    return value
