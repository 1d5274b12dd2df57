from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from deeploop.nn.hrm import HRM, initialise
from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.hrm_halting import (
    Batch,
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
from deeploop.nn.stablemax import IGNORED_LABEL

NEVER = Exploration(torch.ones(4), torch.zeros(4))
"""Draws with which no row explores."""


def model_of(**settings: Any) -> HRM:
    sizes: dict[str, Any] = {
        "sequence_length": 4,
        "vocab_size": 6,
        "identifiers": 3,
        "puzzle_embedding_size": 16,
        "hidden_size": 16,
        "heads": 2,
        "h_layers": 1,
        "l_layers": 1,
        "halt_max_steps": 4,
        "halt_exploration": 0.5,
        "precision": "fp32",
    }
    model = HRM(HRMConfig(**(sizes | settings)))
    initialise(model, 0)
    with torch.no_grad():
        model.q_head.weight.normal_(generator=torch.Generator().manual_seed(1))
        model.puzzle_emb.weights.normal_(generator=torch.Generator().manual_seed(2))
    return model


def batch_of(seed: int = 0) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    inputs, labels = torch.randint(0, 6, (2, 4, 4), generator=draw)
    return Batch(inputs, labels, torch.tensor([0, 1, 2, 1]))


def segment_of(model: HRM, carry: Carry, draws: Exploration = NEVER) -> Segment:
    return train_segment(model, carry, model.puzzle_rows(carry.current.puzzles), draws)


def test_rows_end_at_the_last_segment_when_sure_or_when_exploration_is_over() -> None:
    model = model_of(halt_max_steps=4)
    carry = empty_carry(model, batch_of())
    thought = segment_of(model, carry).thought
    sure, unsure = torch.tensor([2.0, 2.0, -2.0, -2.0]), torch.zeros(4)
    thought = thought._replace(q_halt=sure, q_continue=unsure)
    steps = torch.tensor([1, 1, 1, 4])
    exploring = Exploration(torch.tensor([0.9, 0.1, 0.1, 0.1]), torch.tensor([4, 3, 3, 4]))
    assert halts(model, thought, steps, exploring).tolist() == [True, False, False, True]
    assert halts(model, thought, steps + 2, exploring).tolist() == [True, True, False, True]


def test_halted_rows_take_a_new_puzzle_and_others_keep_theirs() -> None:
    model = model_of()
    first, second = batch_of(0), batch_of(1)
    carry = segment_of(model, admit(model, empty_carry(model, first), first)).carry
    carry = replace(carry, halted=torch.tensor([True, False, True, False]))
    taken = admit(model, carry, second)
    for row, fresh in enumerate((True, False, True, False)):
        source = second if fresh else first
        assert torch.equal(taken.current.inputs[row], source.inputs[row])
        assert taken.steps[row] == (0 if fresh else 1)
        expected = model.H_init.expand(5, -1) if fresh else carry.states.z_h[row]
        assert torch.equal(taken.states.z_h[row], expected)


def test_what_an_empty_carry_holds_never_shows() -> None:
    model, batch = model_of(), batch_of()
    empty = empty_carry(model, batch)
    garbage = replace(
        empty, states=type(empty.states)(*(torch.full_like(s, torch.nan) for s in empty.states))
    )
    loss, _ = segment_loss(model, segment_of(model, admit(model, garbage, batch)))
    assert loss.isfinite()


def test_the_target_is_the_best_of_the_next_segment_or_halting_at_the_last() -> None:
    model, batch = model_of(halt_max_steps=3), batch_of()
    carry = admit(model, empty_carry(model, batch), batch)
    carry = replace(carry, steps=torch.tensor([0, 0, 2, 2], dtype=torch.int32))
    segment = segment_of(model, carry)
    following = model(segment.carry.states, batch.inputs, model.puzzle_rows(batch.puzzles))
    best = torch.maximum(following.q_halt, following.q_continue)
    expected = torch.cat((best[:2], following.q_halt[2:])).sigmoid()
    torch.testing.assert_close(segment.target_q_continue, expected)
    assert segment.carry.halted[2:].all()


def test_one_segment_learns_nothing_about_continuing() -> None:
    model, batch = model_of(halt_max_steps=1), batch_of()
    segment = segment_of(model, admit(model, empty_carry(model, batch), batch))
    assert segment.target_q_continue is None and segment.carry.halted.all()
    _, metrics = segment_loss(model, segment)
    assert "q_continue_loss" not in metrics


def test_a_row_without_labels_counts_as_solved_but_not_in_the_metrics() -> None:
    model, batch = model_of(halt_max_steps=1), batch_of()
    batch.labels[1:] = IGNORED_LABEL
    segment = segment_of(model, admit(model, empty_carry(model, batch), batch))
    wrong = torch.nn.functional.one_hot((batch.labels[:1] + 1) % 6, 6).float()
    logits = torch.cat((wrong, segment.thought.logits[1:]))
    q_halt = torch.tensor([-30.0, 30.0, 30.0, 30.0])
    segment = segment._replace(thought=segment.thought._replace(logits=logits, q_halt=q_halt))
    _, metrics = segment_loss(model, segment)
    assert metrics["q_halt_loss"] < 1e-6
    assert (metrics["count"], metrics["exact_accuracy"]) == (1, 0)
    assert metrics["q_halt_accuracy"] == 1


def test_evaluation_takes_every_segment_and_ignores_halting() -> None:
    model, batch = model_of(halt_max_steps=3), batch_of()
    with torch.no_grad():
        model.q_head.bias.copy_(torch.tensor([50.0, -50.0]))
        states = admit(model, empty_carry(model, batch), batch).states
        puzzle = model.puzzle_rows(batch.puzzles)
        for _ in range(3):
            thought = model(states, batch.inputs, puzzle)
            states = thought.states
    fully = think_fully(model, batch)
    assert torch.equal(fully.logits, thought.logits)
    assert torch.equal(fully.q_halt, thought.q_halt)


def test_a_carry_goes_through_tensors_unchanged() -> None:
    model, batch = model_of(), batch_of()
    carry = segment_of(model, admit(model, empty_carry(model, batch), batch)).carry
    again = Carry.of(carry.tensors())
    assert again.current.labels is carry.current.labels
    assert again.states.z_l is carry.states.z_l and again.halted is carry.halted
