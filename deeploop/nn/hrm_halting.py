"""Adaptive halting of HRM: what is carried from segment to segment, when a row ends, the losses.

A row works on one puzzle for up to `halt_max_steps` segments. In training it also ends when the
halting logit beats the continuing one, unless exploration makes it go on; then the row takes its
place of the next batch. In evaluation every row takes all segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from deeploop.nn.hrm import HRM, Thought
from deeploop.nn.stablemax import IGNORED_LABEL, token_losses


class Batch(NamedTuple):
    """Rows of puzzles."""

    inputs: Tensor
    """`[rows, sequence_length]`, token numbers."""
    labels: Tensor
    """`[rows, sequence_length]`, `IGNORED_LABEL` where no answer is asked."""
    puzzles: Tensor
    """`[rows]`, puzzle identifiers."""

    def where(self, rows: Tensor, other: Batch) -> Batch:
        """Return these rows where `rows` (`[rows]`, bool) is true, `other`'s elsewhere."""
        return Batch(*(_select(rows, mine, theirs) for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Carry:
    """What a row keeps from one segment to the next."""

    z_h: Tensor
    """`[rows, positions, hidden_size]`, without gradient."""
    z_l: Tensor
    steps: Tensor
    """`[rows]`, int32: segments spent on the current puzzle."""
    halted: Tensor
    """`[rows]`, bool: the row takes a new puzzle next."""
    current: Batch

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name, for checkpoints."""
        return {
            "z_h": self.z_h,
            "z_l": self.z_l,
            "steps": self.steps,
            "halted": self.halted,
            **self.current._asdict(),
        }

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Carry:
        """Build from what `tensors` returned."""
        batch = Batch(*(tensors[name] for name in Batch._fields))
        names = ("z_h", "z_l", "steps", "halted")
        return cls(*(tensors[name] for name in names), batch)


class Exploration(NamedTuple):
    """The random draws of one training segment, a row each."""

    uniform: Tensor
    """`[rows]` in [0, 1): below `halt_exploration` the row explores."""
    segments: Tensor
    """`[rows]`, integers in 2..halt_max_steps: how long an exploring row must go on at least."""


class Segment(NamedTuple):
    """The outputs of one segment that losses and predictions are made of."""

    logits: Tensor
    """`[rows, sequence_length, vocab_size]`."""
    q_halt: Tensor
    q_continue: Tensor
    target_q_continue: Tensor | None
    """`[rows]`: the bootstrapped target of `q_continue`; None where nothing is learned from it."""


def empty_carry(model: HRM, batch: Batch) -> Carry:
    """Return the carry before the first segment: every row is due to take a puzzle."""
    rows, device = len(batch.puzzles), batch.puzzles.device
    state = torch.zeros(
        rows, model.positions, model.config.hidden_size, dtype=model.dtype, device=device
    )
    steps = torch.zeros(rows, dtype=torch.int32, device=device)
    return Carry(state, state, steps, torch.ones_like(steps, dtype=torch.bool), batch)


def admit(model: HRM, carry: Carry, batch: Batch) -> Carry:
    """Return the carry with every halted row started on its place of `batch`."""
    halted = carry.halted
    return Carry(
        z_h=_select(halted, model.H_init, carry.z_h),
        z_l=_select(halted, model.L_init, carry.z_l),
        steps=carry.steps.masked_fill(halted, 0),
        halted=halted,
        current=batch.where(halted, carry.current),
    )


def train_segment(
    model: HRM, carry: Carry, puzzle: Tensor | None, draws: Exploration
) -> tuple[Carry, Segment]:
    """Think for one training segment: forward with gradient, halt, target-Q pass.

    Args:
        model: the model.
        carry: what `admit` returned.
        puzzle: the puzzle embeddings of `carry.current.puzzles`; a leaf that receives gradient.
        draws: the exploration draws, used when `halt_max_steps` exceeds 1.
    """
    config = model.config
    embedding = model.embed(carry.current.inputs, puzzle)
    thought = model(carry.z_h, carry.z_l, embedding)
    with torch.no_grad():
        steps = carry.steps + 1
        last = steps >= config.halt_max_steps
        halted, target = last, None
        if config.halt_max_steps > 1:
            wants = thought.q_halt > thought.q_continue
            least = (draws.uniform < config.halt_exploration) * draws.segments
            halted = (last | wants) & (steps >= least)
            following = model(thought.z_h.detach(), thought.z_l.detach(), embedding, True)
            target = _continuation_value(last, following)
        state = thought.z_h.detach(), thought.z_l.detach()
        carried = Carry(*state, steps, halted, carry.current)
    logits = model.logits(thought.z_h)
    return carried, Segment(logits, thought.q_halt, thought.q_continue, target)


@torch.no_grad()
def think(model: HRM, batch: Batch) -> tuple[Carry, Segment]:
    """Work on every row of `batch` for all `halt_max_steps` segments, without gradient."""
    carry = admit(model, empty_carry(model, batch), batch)
    embedding = model.embed(batch.inputs, model.puzzle_rows(batch.puzzles))
    thought = Thought(carry.z_h, carry.z_l, *(torch.empty(0),) * 2)
    for _ in range(model.config.halt_max_steps):
        thought = model(thought.z_h, thought.z_l, embedding)
    steps = torch.full_like(carry.steps, model.config.halt_max_steps)
    carried = Carry(thought.z_h, thought.z_l, steps, carry.halted, batch)
    return carried, Segment(
        model.logits(thought.z_h), thought.q_halt, thought.q_continue, None
    )


def segment_loss(
    model: HRM, carry: Carry, segment: Segment
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss summed over rows, and sums for metrics.

    The loss of a row is the mean cross-entropy of its labelled tokens, plus half the binary
    cross-entropies of `q_halt` against 'every token is right' and of `q_continue` against its
    target. Divide by the global batch size for the gradient.

    Returns:
        The scalar loss, and the published metrics: sums over the rows that halted and have a
        label (`count` of them), and the three losses over all rows.
    """
    labels = carry.current.labels
    answered = labels != IGNORED_LABEL
    counts = answered.sum(-1)
    divisor = counts.clamp_min(1)
    right = (answered & (segment.logits.argmax(-1) == labels)).sum(-1)
    # A row without a label counts as solved here, though not in the metrics, as published.
    solved = right == counts
    losses = {
        "lm_loss": (token_losses(segment.logits, labels, model.config.loss).sum(-1) / divisor).sum(),
        "q_halt_loss": _binary_loss(segment.q_halt, solved.to(segment.q_halt.dtype)),
    }
    if segment.target_q_continue is not None:
        losses["q_continue_loss"] = _binary_loss(segment.q_continue, segment.target_q_continue)
    halting = sum(loss for name, loss in losses.items() if name != "lm_loss")
    scored = carry.halted & (counts > 0)
    metrics = {
        "count": scored.sum(),
        "accuracy": (right / divisor)[scored].sum(),
        "exact_accuracy": (scored & solved).sum(),
        "q_halt_accuracy": (scored & ((segment.q_halt >= 0) == solved)).sum(),
        "steps": (carry.steps * scored).sum(),
        **{name: loss.detach() for name, loss in losses.items()},
    }
    return losses["lm_loss"] + 0.5 * halting, metrics


def _continuation_value(last: Tensor, following: Thought) -> Tensor:
    """Return the target of `q_continue`: what the next segment is worth, seen from itself."""
    best = torch.maximum(following.q_halt, following.q_continue)
    return torch.where(last, following.q_halt, best).sigmoid()


def _binary_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")


def _select(rows: Tensor, taken: Tensor, kept: Tensor) -> Tensor:
    return torch.where(rows.view(-1, *(1,) * (kept.ndim - 1)), taken, kept)
