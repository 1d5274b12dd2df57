"""Replay a reference file of HRM and measure how far this implementation is from it.

Each step starts from the reference's own carry and (where they are recorded) weights, so a
deviation shows where it arises and nowhere else; the optimizers' moments are ours throughout.
What a comparison decides (halting, right or wrong tokens) is computed from the reference's
numbers: a tie in bf16 is no deviation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deeploop.nn.hrm import HRM
from deeploop.nn.hrm_halting import (
    Carry,
    Exploration,
    Segment,
    admit,
    empty_carry,
    halts,
    segment_loss,
    think_fully,
    train_segment,
)
from deeploop.nn.hrm_weights import fill
from deeploop.training.adam_atan2 import AdamATan2
from deeploop.training.hrm_reference import MODEL, Reference
from deeploop.training.sparse_sign import sign_step

TOLERANCES = {"fp32": 1e-5, "fp64": 1e-10, "bf16": 2e-2}
"""Largest relative deviation of a tensor, max|a - b| / max|b|, by precision."""
WEIGHTS_WITHIN = 0.9999
"""Share of updated weights that must keep the tolerance; the first updates are lr times the
gradient's sign, so the rest may differ by 2 lr where the gradient is all but zero."""


@dataclass(frozen=True)
class Deviation:
    """How far one recorded tensor is from ours."""

    quantity: str
    """What kind of number it is: `logits`, `carry.z_H`, `grad`, `after`, ..."""
    where: str
    """The tensor's name in the file."""
    relative: float
    """max|a - b| / max|b|; infinite where shapes or exact values differ."""
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the deviation is within its limit."""
        return self.relative <= self.limit


def check(reference: Reference) -> list[Deviation]:
    """Replay every recorded step and the evaluation, and return all deviations."""
    model = HRM(reference.config)
    fill(model, reference.weights("param."), "param.*")
    optimizer = AdamATan2(model.parameters(), reference.lr, reference.betas, reference.weight_decay)
    generator = torch.Generator().manual_seed(reference.draws_seed)
    carry = empty_carry(model, reference.batch("step0.batch."))
    found: list[Deviation] = []
    for step in range(reference.steps):
        draws = _draws(reference, generator)
        found.extend(_check_step(reference, step, model, optimizer, carry, draws))
        carry = reference.carry(step)
        after = reference.weights(f"step{step}.after.")
        if after:
            fill(model, after, f"step{step}.after.*")
    return found + list(_check_evaluation(reference, model))


def _draws(reference: Reference, generator: torch.Generator) -> Exploration:
    """Draw as the published code does: uniform numbers, then numbers of segments."""
    rows = len(reference.tensor("step0.batch.inputs"))
    uniform = torch.rand(rows, generator=generator)
    most = max(reference.config.halt_max_steps, 2)
    segments = torch.randint(2, most + 1, (rows,), generator=generator, dtype=torch.int32)
    return Exploration(uniform, segments)


def _check_step(
    reference: Reference,
    step: int,
    model: HRM,
    optimizer: AdamATan2,
    carry: Carry,
    draws: Exploration,
) -> Iterator[Deviation]:
    prefix = f"step{step}."
    batch = reference.batch(prefix + "batch.")
    carry = admit(model, carry, batch)
    puzzle = model.puzzle_rows(carry.current.puzzles)
    if puzzle is not None:
        puzzle.requires_grad_()
    segment = train_segment(model, carry, puzzle, draws)
    loss, metrics = segment_loss(model, segment)
    (loss / len(batch.puzzles)).backward()
    losses = {f"metric.{name}": value for name, value in metrics.items() if _is_loss(name)}
    yield from _compare(reference, prefix, _outputs(loss, segment) | losses)
    yield from _compare(reference, prefix, _decisions(reference, prefix, model, segment, draws))
    gradients = {
        f"grad.{MODEL}{name}": parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    if puzzle is not None and puzzle.grad is not None:
        gradients["grad.puzzle_emb_local"] = puzzle.grad
        rates = reference.puzzle_lr, reference.puzzle_weight_decay
        sign_step(model.puzzle_emb.weights, carry.current.puzzles, puzzle.grad, *rates)
    yield from _compare(reference, prefix, gradients)
    optimizer.step()
    optimizer.zero_grad()
    yield from _compare_weights(reference, prefix, model, gradients)


def _outputs(loss: Tensor, segment: Segment) -> dict[str, Tensor]:
    """Return what a step computed, by the file's names."""
    thought, carry = segment.thought, segment.carry
    outputs = {
        "loss": loss,
        "logits": thought.logits,
        "q_halt_logits": thought.q_halt,
        "q_continue_logits": thought.q_continue,
        "carry.z_H": carry.states.z_h,
        "carry.z_L": carry.states.z_l,
        "carry.steps": carry.steps,
        "carry.current.inputs": carry.current.inputs,
        "carry.current.labels": carry.current.labels,
        "carry.current.puzzle_identifiers": carry.current.puzzles,
    }
    if segment.target_q_continue is not None:
        outputs["target_q_continue"] = segment.target_q_continue
    return outputs


def _decisions(
    reference: Reference, prefix: str, model: HRM, segment: Segment, draws: Exploration
) -> dict[str, Tensor]:
    """Return halting and the metrics that count, computed from the reference's outputs."""
    thought = segment.thought._replace(
        logits=reference.tensor(prefix + "logits"),
        q_halt=reference.tensor(prefix + "q_halt_logits"),
        q_continue=reference.tensor(prefix + "q_continue_logits"),
    )
    carry = segment.carry
    if model.config.halt_max_steps > 1:
        carry = replace(carry, halted=halts(model, thought, carry.steps, draws))
    _, metrics = segment_loss(model, Segment(thought, carry, segment.target_q_continue))
    named = {f"metric.{name}": value for name, value in metrics.items() if not _is_loss(name)}
    return {"carry.halted": carry.halted, **named}


def _is_loss(metric: str) -> bool:
    return metric.endswith("_loss")


def _check_evaluation(reference: Reference, model: HRM) -> Iterator[Deviation]:
    if "eval.loss" not in reference.tensors:
        return
    batch = reference.batch("eval.batch.")
    thought = think_fully(model, batch)
    carry = replace(empty_carry(model, batch), states=thought.states)
    loss, _ = segment_loss(model, Segment(thought, carry, None))
    outputs = {
        "loss": loss,
        "logits": thought.logits,
        "q_halt_logits": thought.q_halt,
        "q_continue_logits": thought.q_continue,
    }
    yield from _compare(reference, "eval.", outputs)


def _compare(reference: Reference, prefix: str, ours: Mapping[str, Tensor]) -> Iterator[Deviation]:
    limit = TOLERANCES[reference.config.precision]
    for name, value in ours.items():
        if prefix + name in reference.tensors:
            expected = reference.tensors[prefix + name]
            quantity = "grad" if name.startswith("grad.") else name
            yield Deviation(quantity, prefix + name, relative_deviation(value, expected), limit)


def relative_deviation(ours: Tensor, expected: Tensor) -> float:
    """Return max|a - b| / max|b|; for integers and booleans 0 or infinity."""
    if ours.shape != expected.shape:
        return float("inf")
    if not expected.is_floating_point() and not ours.is_floating_point():
        return 0.0 if torch.equal(ours.long(), expected.long()) else float("inf")
    difference = (ours.detach().double() - expected.double()).abs().max().item()
    largest = expected.double().abs().max().item()
    if difference == 0:
        return 0.0
    return difference / largest if largest and difference == difference else float("inf")


def _compare_weights(
    reference: Reference, prefix: str, model: HRM, gradients: Mapping[str, Tensor]
) -> Iterator[Deviation]:
    """Compare updated weights: 99.99 % of them to the tolerance, the rest by `_excused`."""
    limit = TOLERANCES[reference.config.precision]
    expected = reference.weights(prefix + "after.")
    if not expected:
        return
    outside = total = 0
    for name, value in model.state_dict().items():
        if name not in expected:
            continue
        wrong = (value.double() - expected[name].double()).abs()
        beyond = wrong > limit * expected[name].double().abs().max()
        kept = relative_deviation(
            value.masked_fill(beyond, 0), expected[name].masked_fill(beyond, 0)
        )
        if not _excused(reference, prefix, name, wrong, beyond, gradients):
            kept = relative_deviation(value, expected[name])
        outside, total = outside + int(beyond.sum()), total + beyond.numel()
        yield Deviation("after", f"{prefix}after.{MODEL}{name}", kept, limit)
    yield Deviation("after.beyond_limit", prefix + "after.*", outside / total, 1 - WEIGHTS_WITHIN)


def _excused(
    reference: Reference,
    prefix: str,
    name: str,
    wrong: Tensor,
    beyond: Tensor,
    gradients: Mapping[str, Tensor],
) -> bool:
    """Say whether every weight beyond the tolerance had a gradient whose sign is undecided."""
    gradient = gradients.get(f"grad.{MODEL}{name}")
    if gradient is None:
        rate = reference.puzzle_lr
        undecided = torch.full_like(beyond, name == "puzzle_emb.weights")
    else:
        rate = reference.lr
        undecided = gradient.abs() <= TOLERANCES[reference.config.precision] * gradient.abs().max()
    return bool((~beyond | (undecided & (wrong <= 2 * rate))).all())
