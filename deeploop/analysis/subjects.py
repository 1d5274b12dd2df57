"""What alignment is measured on: a model with shared blocks, its matrices, a loss and an output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from deeploop.errors import UserError
from deeploop.nn.gpt import LoopedGPT
from deeploop.nn.hrm import HRM
from deeploop.nn.hrm_halting import (
    Batch,
    Exploration,
    admit,
    empty_carry,
    segment_loss,
    train_segment,
)
from deeploop.nn.init import matrices
from deeploop.nn.loss import cross_entropy


class Outcome(NamedTuple):
    """What a forward gives."""

    loss: Callable[[], Tensor]
    """Gives the scalar that training differentiates; the output's change needs none."""
    output: Tensor
    """F of the paper's perturbation bound: the states the head reads."""


@dataclass(frozen=True)
class SharedMatrix:
    """A matrix of a shared block, as rows of a parameter."""

    name: str
    """E.g. `blocks.3.attention.v`."""
    block: str
    parameter: str
    """Its name in the block."""
    rows: slice

    @property
    def sublayer(self) -> str:
        """The residual sublayer it belongs to (the paper's j), e.g. `blocks.3.attention`."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Module:
    """Blocks that are visited together: the loop, or one of HRM's modules."""

    name: str
    blocks: tuple[str, ...]
    """Sub-modules of the model, in the order they are applied."""
    matrices: tuple[SharedMatrix, ...]


@dataclass(frozen=True)
class Subject:
    """A model and how to run it on a batch."""

    model: nn.Module
    modules: tuple[Module, ...]
    forward: Callable[[Any], Outcome]
    """Batch -> loss and output, with gradient."""

    @property
    def blocks(self) -> tuple[str, ...]:
        """All shared blocks."""
        return tuple(block for module in self.modules for block in module.blocks)


def looped_gpt(model: LoopedGPT) -> Subject:
    """Return the looped GPT as a subject; a batch is (inputs, targets), each [rows, length].

    Raises:
        UserError: the model is not looped.
    """
    if model.config.loops < 2:
        raise UserError("alignment needs a looped model: with R = 1 no block is visited twice")
    if model.checkpoint_rounds:
        raise UserError("alignment needs checkpoint_rounds off: a recomputed visit counts twice")

    def forward(batch: tuple[Tensor, Tensor]) -> Outcome:
        inputs, targets = batch
        states = model.hidden(inputs)
        flat = states.flatten(0, 1)
        return Outcome(lambda: cross_entropy(flat, model.embedding, targets.flatten()), states)

    names = tuple(f"blocks.{index}" for index in range(model.config.backbone.layers))
    shared = tuple(
        SharedMatrix(
            entry.name,
            block,
            entry.parameter.removeprefix(f"{block}."),
            slice(entry.row, entry.row + entry.shape[0]),
        )
        for block in names
        for entry in matrices(model.config)
        if entry.name.startswith(f"{block}.")
    )
    return Subject(model, (Module("loop", names, shared),), forward)


def hrm(model: HRM, draws: Exploration) -> Subject:
    """Return an HRM as a subject; a batch is a `Batch`, worked on for one segment from the start.

    Args:
        model: with `gradient: last_cycle`, so that all C_L visits of L in the last outer cycle
            carry gradient (the paper's M_g); with the published code's `last_step` no block is
            visited twice.
        draws: of halting, a row each; they bear on the halting targets alone.

    Raises:
        UserError: no block is visited twice within the gradient's sight.
    """
    if model.config.visible_l_visits < 2:
        raise UserError(
            "alignment needs visits that the gradient sees: set `gradient: last_cycle` and "
            f"l_cycles above 1 (it is {model.config.gradient}, {model.config.l_cycles})"
        )

    def forward(batch: Batch) -> Outcome:
        carry = admit(model, empty_carry(model, batch), batch)
        segment = train_segment(model, carry, model.puzzle_rows(batch.puzzles), draws)
        rows = len(batch.puzzles)
        return Outcome(lambda: segment_loss(model, segment)[0] / rows, segment.thought.states.z_h)

    levels = (("H", model.H_level), ("L", model.L_level))
    modules = tuple(_hrm_module(name, len(level.layers), model) for name, level in levels)
    return Subject(model, modules, forward)


def _hrm_module(name: str, layers: int, model: HRM) -> Module:
    blocks = tuple(f"{name}_level.layers.{index}" for index in range(layers))
    size, width = model.config.hidden_size, model.config.ffn_hidden
    parts = (
        ("self_attn.q", "self_attn.qkv_proj.weight", slice(0, size)),
        ("self_attn.k", "self_attn.qkv_proj.weight", slice(size, 2 * size)),
        ("self_attn.v", "self_attn.qkv_proj.weight", slice(2 * size, 3 * size)),
        ("self_attn.o", "self_attn.o_proj.weight", slice(0, size)),
        ("mlp.gate", "mlp.gate_up_proj.weight", slice(0, width)),
        ("mlp.up", "mlp.gate_up_proj.weight", slice(width, 2 * width)),
        ("mlp.down", "mlp.down_proj.weight", slice(0, size)),
    )
    shared = tuple(
        SharedMatrix(f"{block}.{part}", block, parameter, rows)
        for block in blocks
        for part, parameter, rows in parts
    )
    return Module(name, blocks, shared)
