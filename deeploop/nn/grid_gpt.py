"""The looped GPT on ARC: puzzle, input grid and output grid as one causal sequence.

Position 0 holds the embedding of the puzzle's identifier, as HRM's sequences begin; then come the
T tokens of the input's square and the T tokens of the output's. Both squares are of one size, so
a cell of the output is always T positions behind the same cell of the input.
"""

from __future__ import annotations

import json
from math import isqrt
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import Tensor, nn

from deeploop.arc.grids import COLOUR_OFFSET, PAD
from deeploop.errors import UserError
from deeploop.nn.cache import GrowingCache
from deeploop.nn.config import GPTConfig
from deeploop.nn.gpt import LoopedGPT
from deeploop.nn.init import initialize
from deeploop.nn.weights import load_weights

CONFIG_FILE = "model.json"
WEIGHTS_FILE = "model.safetensors"
ARCHITECTURE = "grid_gpt"


class GridGPT(nn.Module):
    """A looped GPT, and a table with one embedding for every puzzle identifier."""

    puzzles: Tensor
    """[identifiers, hidden_size]; no parameter: a step moves only the rows it touches."""

    def __init__(self, config: GPTConfig, identifiers: int) -> None:
        """Make the model, its GPT uninitialised; the context length is that of both squares."""
        super().__init__()
        self.config, self.identifiers = config, identifiers
        self.gpt = LoopedGPT(config)
        self.register_buffer("puzzles", torch.zeros(identifiers, config.backbone.hidden_size))

    @property
    def square(self) -> int:
        """Tokens of a square, T."""
        return self.config.backbone.context_length // 2

    def forward(self, inputs: Tensor, outputs: Tensor, puzzles: Tensor) -> Tensor:
        """Return the logits of every output token, given those before it, [batch, T, vocabulary].

        Args:
            inputs: [batch, T], int64.
            outputs: [batch, T], int64.
            puzzles: embeddings of the rows' puzzles, [batch, hidden_size].
        """
        tokens = torch.cat((inputs, outputs[:, :-1]), dim=1)
        states = self.gpt.hidden(tokens, puzzles[:, None])
        return F.linear(states[:, inputs.shape[1] :], self.gpt.embedding)

    @torch.inference_mode()
    def solve(self, inputs: Tensor, identifiers: Tensor) -> tuple[Tensor, Tensor]:
        """Write outputs token by token, each the most probable one.

        A grid lies at the top left of its square and ends above the first row that begins with no
        colour. What is written after that is `PAD`, and takes no part in the probability.

        Args:
            inputs: [batch, T], int64.
            identifiers: [batch], which puzzle each row is of.

        Returns:
            The outputs, int64 [batch, T], and the log-probability of each as a whole, [batch].
        """
        side, cache = isqrt(self.square), self._cache()
        outputs = torch.full_like(inputs, PAD)
        total = torch.zeros(len(inputs), dtype=torch.float64, device=inputs.device)
        open_ = torch.ones(len(inputs), dtype=torch.bool, device=inputs.device)
        tokens = inputs
        prefix: Tensor | None = self.puzzles[identifiers][:, None]
        for place in range(self.square):
            states = self.gpt.decode(tokens, cache, cache.length, prefix=prefix)
            logits = F.linear(states[:, -1], self.gpt.embedding).float()
            best, chosen = logits.log_softmax(-1).max(-1)
            total += best.double() * open_
            outputs[:, place] = chosen.where(open_, PAD)
            if place % side == 0:
                open_ = open_ & (chosen >= COLOUR_OFFSET)
                if not open_.any():
                    break
            tokens, prefix = chosen[:, None], None
        return outputs, total

    def _cache(self) -> GrowingCache:
        return GrowingCache(self.config.loops * self.config.backbone.layers)


def sized(model: dict[str, Any], tokens: int, vocabulary: int) -> GPTConfig:
    """Return the architecture for squares of `tokens` tokens; `model` is a `GPTConfig`."""
    sizes = {"context_length": 2 * tokens, "vocab_size": vocabulary}
    return GPTConfig.model_validate(model | {"backbone": model["backbone"] | sizes})


def build_grid_gpt(
    config: GPTConfig,
    identifiers: int,
    seed: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> GridGPT:
    """Return the model with its initial values of `seed`; puzzle embeddings start at zero."""
    with torch.device(device):
        model = GridGPT(config, identifiers).to(dtype)
    initialize(model.gpt, config, seed)
    return model


def describe_grid_gpt(config: GPTConfig, identifiers: int, precision: str) -> dict[str, Any]:
    """Return what `model.json` says of a trained model."""
    return {
        "architecture": ARCHITECTURE,
        "config": config.model_dump(mode="json"),
        "identifiers": identifiers,
        "precision": precision,
    }


def load_grid_gpt(folder: Path, device: torch.device | str = "cpu") -> tuple[GridGPT, str]:
    """Open a model folder; return the model, ready for prediction, and its precision.

    Raises:
        UserError: when it holds no such model, or weights that do not fit its configuration.
    """
    path = folder / CONFIG_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["architecture"] != ARCHITECTURE:
            raise UserError(f"{path} describes a model of another kind: {found['architecture']}")
        config = GPTConfig.model_validate(found["config"])
        identifiers, precision = int(found["identifiers"]), str(found["precision"])
    except OSError as error:
        raise UserError(f"{folder} is no model folder: {CONFIG_FILE}: {error.strerror}") from error
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} does not describe a looped GPT on grids: {error}") from error
    with torch.device(device):
        model = GridGPT(config, identifiers)
    load_weights(model, folder / WEIGHTS_FILE, device)
    return model.eval(), precision
