"""Adaptive halting of HRM: what is carried from segment to segment, when a row ends, the losses.

A row works on one puzzle for up to `halt_max_steps` segments. In training it also ends when the
halting logit beats the continuing one, unless exploration makes it go on; then the row takes its
place of the next batch. In evaluation every row takes all segments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from deeploop.nn.hrm import HRM, States, Thought
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
        return Batch(
            *(_select(rows, mine, theirs) for mine, theirs in zip(self, other, strict=True))
        )


@dataclass(frozen=True)
class Carry:
    """What a row keeps from one segment to the next."""

    states: States
    """Without gradient."""
    steps: Tensor
    """`[rows]`, int32: segments spent on the current puzzle."""
    halted: Tensor
    """`[rows]`, bool: the row takes a new puzzle next."""
    current: Batch

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name, rows first, for checkpoints."""
        own = {"steps": self.steps, "halted": self.halted}
        return own | self.states._asdict() | self.current._asdict()

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Carry:
        """Build from what `tensors` returned."""
        states = States(*(tensors[name] for name in States._fields))
        batch = Batch(*(tensors[name] for name in Batch._fields))
        return cls(states, tensors["steps"], tensors["halted"], batch)


class Exploration(NamedTuple):
    """The random draws of one training segment, a row each."""

    uniform: Tensor
    """`[rows]` in [0, 1): below `halt_exploration` the row explores."""
    segments: Tensor
    """`[rows]`, integers in 2..halt_max_steps: how long an exploring row goes on at least."""


class Segment(NamedTuple):
    """One segment of training: its outputs, and what `q_continue` should have been."""

    thought: Thought
    carry: Carry
    target_q_continue: Tensor | None
    """`[rows]`; None with `halt_max_steps` 1, where nothing is learned about halting."""


def empty_carry(model: HRM, batch: Batch) -> Carry:
    """Return the carry before the first segment: every row is due to take a puzzle."""
    rows, device = len(batch.puzzles), batch.puzzles.device
    size = (rows, model.positions, model.config.hidden_size)
    state = torch.zeros(size, dtype=model.dtype, device=device)
    steps = torch.zeros(rows, dtype=torch.int32, device=device)
    return Carry(States(state, state), steps, torch.ones_like(steps, dtype=torch.bool), batch)


def admit(model: HRM, carry: Carry, batch: Batch) -> Carry:
    """Return the carry with every halted row started on its place of `batch`."""
    halted = carry.halted
    start = States(model.H_init, model.L_init)
    return Carry(
        States(*(_select(halted, new, old) for new, old in zip(start, carry.states, strict=True))),
        carry.steps.masked_fill(halted, 0),
        halted,
        batch.where(halted, carry.current),
    )


def train_segment(
    model: HRM,
    carry: Carry,
    puzzle: Tensor | None,
    draws: Exploration,
    forward: Callable[[States, Tensor, Tensor | None], Thought] | None = None,
) -> Segment:
    """Think for one training segment: forward with gradient, target-Q pass, halting.

    Args:
        model: the model.
        carry: what `admit` returned.
        puzzle: the puzzle embeddings of `carry.current.puzzles`; a leaf that receives gradient.
        draws: the exploration draws, used when `halt_max_steps` exceeds 1.
        forward: the forward that carries gradient, where it is not `model` itself but a wrapper
            of it.
    """
    thought = (forward or model)(carry.states, carry.current.inputs, puzzle)
    with torch.no_grad():
        states = States(*(state.detach() for state in thought.states))
        steps = carry.steps + 1
        halted = last = steps >= model.config.halt_max_steps
        target = None
        if model.config.halt_max_steps > 1:
            halted = halts(model, thought, steps, draws)
            halt, proceed = model.halting(states, thought.embedding)
            target = torch.where(last, halt, torch.maximum(halt, proceed)).sigmoid()
    return Segment(thought, Carry(states, steps, halted, carry.current), target)


@torch.no_grad()
def think_fully(model: HRM, batch: Batch) -> Thought:
    """Work on every row of `batch` for all `halt_max_steps` segments, without gradient."""
    states = admit(model, empty_carry(model, batch), batch).states
    puzzle = model.puzzle_rows(batch.puzzles)
    embedding = model.embed(batch.inputs, puzzle)
    for _ in range(model.config.halt_max_steps - 1):
        states = model.think(states, embedding)
    return model(states, batch.inputs, puzzle)


def halts(model: HRM, thought: Thought, steps: Tensor, draws: Exploration) -> Tensor:
    """Return which rows end here in training, `[rows]`: out of segments, or sure enough.

    Args:
        model: the model.
        thought: what it returned.
        steps: segments spent, this one included.
        draws: an exploring row goes on for at least its number of segments.
    """
    last = steps >= model.config.halt_max_steps
    least = (draws.uniform < model.config.halt_exploration) * draws.segments
    return (last | (thought.q_halt > thought.q_continue)) & (steps >= least)


def segment_loss(model: HRM, segment: Segment) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss summed over rows, and sums for metrics.

    The loss of a row is the mean cross-entropy of its labelled tokens, plus half the binary
    cross-entropies of `q_halt` against 'every token is right' and of `q_continue` against its
    target. Divide by the global batch size for the gradient.

    Returns:
        The scalar loss, and the published metrics: sums over the rows that halted and have a
        label (`count` of them), and the three losses over all rows.
    """
    thought, carry = segment.thought, segment.carry
    labels = carry.current.labels
    answered = labels != IGNORED_LABEL
    counts = answered.sum(-1)
    divisor = counts.clamp_min(1)
    right = (answered & (thought.logits.argmax(-1) == labels)).sum(-1)
    # A row without a label counts as solved here, though not in the metrics, as published.
    solved = right == counts
    tokens = token_losses(thought.logits, labels, model.config.loss)
    language = (tokens.sum(-1) / divisor).sum()
    halting = {"q_halt_loss": _binary_loss(thought.q_halt, solved.to(thought.q_halt.dtype))}
    if segment.target_q_continue is not None:
        target = segment.target_q_continue
        halting["q_continue_loss"] = _binary_loss(thought.q_continue, target)
    scored = carry.halted & (counts > 0)
    metrics = {
        "count": scored.sum(),
        "accuracy": (scored * right / divisor).sum(),
        "exact_accuracy": (scored & solved).sum(),
        "q_halt_accuracy": (scored & ((thought.q_halt >= 0) == solved)).sum(),
        "steps": (scored * carry.steps).sum(),
        "lm_loss": language.detach(),
        **{name: loss.detach() for name, loss in halting.items()},
    }
    return language + 0.5 * sum(halting.values()), metrics


def _binary_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")


def _select(rows: Tensor, taken: Tensor, kept: Tensor) -> Tensor:
    return torch.where(rows.view(-1, *(1,) * (kept.ndim - 1)), taken, kept)
