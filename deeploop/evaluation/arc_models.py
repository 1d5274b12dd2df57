"""The models that answer ARC's test rows, opened from the folders their trainings left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from deeploop.arc.rows import ArcRows
from deeploop.errors import UserError
from deeploop.nn.grid_gpt import GridGPT, load_grid_gpt
from deeploop.nn.hrm import HRM
from deeploop.nn.hrm_halting import think_fully
from deeploop.nn.hrm_weights import OTHER_BUILD, load_model
from deeploop.training.hrm_task import to_batch
from deeploop.training.puzzle_order import Rendered

Kind = Literal["hrm", "gpt"]


class ArcModel(ABC):
    """Answers rows of a data set, and says how sure it is."""

    @abstractmethod
    def answer(self, rows: Rendered) -> tuple[Tensor, Tensor]:
        """Return the answers, uint8 [rows, T], and logits of their being right, [rows]."""


class HRMModel(ArcModel):
    """HRM: all halting segments, every token at once; as sure as its halting logit says."""

    def __init__(self, model: HRM, device: torch.device) -> None:
        self.model, self.device = model, device

    def answer(self, rows: Rendered) -> tuple[Tensor, Tensor]:
        """See `ArcModel`."""
        with torch.inference_mode():
            thought = think_fully(self.model, to_batch(rows, self.device))
            return thought.logits.argmax(-1).to(torch.uint8), thought.q_halt.float()


class GPTModel(ArcModel):
    """The looped GPT: greedy, token by token; as sure as the answer is probable to it."""

    def __init__(self, model: GridGPT, precision: str, device: torch.device) -> None:
        self.model, self.precision, self.device = model, precision, device

    def answer(self, rows: Rendered) -> tuple[Tensor, Tensor]:
        """See `ArcModel`."""
        inputs, _, identifiers = (torch.from_numpy(part) for part in rows)
        enabled = self.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=enabled):
            tokens, log_probability = self.model.solve(
                inputs.to(self.device).long(), identifiers.to(self.device).long()
            )
        return tokens.to(torch.uint8), logit(log_probability)


def logit(log_probability: Tensor) -> Tensor:
    """Return log(p / (1 - p)) as finite float32, however close p is to one."""
    less = log_probability.double().clamp(max=-1e-12)
    return (less - torch.log(-torch.expm1(less))).float()


def open_arc_model(
    kind: Kind, folder: Path, data: ArcRows, device: torch.device, compile_as: str = "none"
) -> ArcModel:
    """Open a model folder for the rows of `data`.

    Raises:
        UserError: it is no such folder, or model and data set do not fit together.
    """
    if kind == "gpt":
        gpt, precision = load_grid_gpt(folder, device)
        check_sizes(folder, data, gpt.square, gpt.config.backbone.vocab_size, gpt.identifiers)
        return GPTModel(gpt, precision, device)
    hrm = load_model(folder, device)
    config = hrm.config
    identifiers = config.identifiers if config.puzzle_embedding_size else data.identifiers
    check_sizes(folder, data, config.sequence_length, config.vocab_size, identifiers)
    hrm.compile_as(compile_as)
    return HRMModel(hrm, device)


def check_sizes(
    source: Path, data: ArcRows, tokens: int, vocabulary: int, identifiers: int
) -> None:
    """See that a model can read a data set's rows.

    Raises:
        UserError: naming what differs; for identifiers with what it may come from.
    """
    for name, ours, theirs, cause in (
        ("tokens a row", tokens, data.tokens, ""),
        ("token values", vocabulary, data.vocabulary, ""),
        ("puzzle identifiers", identifiers, data.identifiers, f": it was {OTHER_BUILD}"),
    ):
        if ours != theirs:
            raise UserError(
                f"{source}: the model has {ours:,} {name}, the data set {theirs:,}{cause}"
            )
