from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from deeploop.arc.grids import COLOUR_OFFSET, END, PAD
from deeploop.errors import UserError
from deeploop.fileio import dump_json
from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.grid_gpt import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    GridGPT,
    build_grid_gpt,
    describe_grid_gpt,
    load_grid_gpt,
)
from deeploop.training.checkpoint import write_tensors

SIDE, ROWS = 3, 24
SQUARE = SIDE * SIDE


@pytest.fixture
def model() -> GridGPT:
    """Untrained, but with distinct puzzles and a peaked head: it writes all kinds of squares."""
    backbone = Backbone(
        hidden_size=16, layers=2, heads=2, context_length=2 * SQUARE, vocab_size=12, embedding_std=1
    )
    scaling = Scaling(alpha_exponent=0, beta_exponent=0)
    made = build_grid_gpt(GPTConfig(backbone=backbone, loops=3, scaling=scaling), 5, seed=3)
    made.puzzles.normal_(generator=torch.Generator().manual_seed(1))
    return made.eval()


@pytest.fixture
def inputs() -> Tensor:
    return torch.randint(0, 12, (ROWS, SQUARE), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def identifiers() -> Tensor:
    return torch.arange(ROWS) % 5


def test_a_cached_solution_is_what_the_forward_pass_finds_most_probable(
    model: GridGPT, inputs: Tensor, identifiers: Tensor
) -> None:
    outputs, log_probability = model.solve(inputs, identifiers)
    with torch.no_grad():
        logits = model(inputs, outputs, model.puzzles[identifiers])
    chosen = logits.log_softmax(-1).gather(-1, outputs[..., None])[..., 0]
    ends = set()
    for row in range(ROWS):
        starts = outputs[row, ::SIDE] < COLOUR_OFFSET
        written = int(starts.int().argmax()) * SIDE + 1 if starts.any() else SQUARE
        assert (outputs[row, :written] == logits[row, :written].argmax(-1)).all()
        assert (outputs[row, written:] == PAD).all()
        expected = chosen[row, :written].sum().item()
        assert log_probability[row].item() == pytest.approx(expected, rel=1e-4)
        ends.add(written)
    assert len(ends) > 1, "rows of one batch end at different places"


def test_a_solution_depends_on_the_puzzle_and_not_on_other_rows(
    model: GridGPT, inputs: Tensor, identifiers: Tensor
) -> None:
    outputs, log_probability = model.solve(inputs, identifiers)
    alone, probable = model.solve(inputs[4:5], identifiers[4:5])
    assert torch.equal(outputs[4:5], alone)
    torch.testing.assert_close(log_probability[4:5], probable, rtol=1e-5, atol=0)
    others, _ = model.solve(inputs, (identifiers + 1) % 5)
    assert not torch.equal(outputs, others)


def test_an_output_token_sees_only_what_stands_before_it(
    model: GridGPT, inputs: Tensor, identifiers: Tensor
) -> None:
    outputs = inputs.flip(0)
    changed = outputs.clone()
    changed[:, 4] = END
    with torch.no_grad():
        before, after = (
            model(inputs, one, model.puzzles[identifiers]) for one in (outputs, changed)
        )
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=1e-5, atol=1e-6)
    assert (before[:, 5] - after[:, 5]).abs().max() > 1e-3


def test_a_folder_opens_again(model: GridGPT, inputs: Tensor, tmp_path: Path) -> None:
    save(model, tmp_path)
    opened, precision = load_grid_gpt(tmp_path)
    assert precision == "bf16"
    rows = torch.zeros(ROWS, dtype=torch.int64)
    assert torch.equal(opened.solve(inputs, rows)[0], model.solve(inputs, rows)[0])


def test_other_folders_are_refused(model: GridGPT, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is no model folder: model\.json"):
        load_grid_gpt(tmp_path)
    save(model, tmp_path)
    described = json.loads((tmp_path / CONFIG_FILE).read_text())
    for change, message in (
        ({"architecture": "hrm"}, "a model of another kind: hrm"),
        ({"config": {}}, "does not describe a looped GPT on grids"),
        ({"identifiers": 7}, "does not fit the model's configuration"),
    ):
        (tmp_path / CONFIG_FILE).write_text(dump_json(described | change))
        with pytest.raises(UserError, match=message):
            load_grid_gpt(tmp_path)


def save(model: GridGPT, folder: Path) -> None:
    write_tensors(folder / WEIGHTS_FILE, model.state_dict())
    described = describe_grid_gpt(model.config, model.identifiers, "bf16")
    (folder / CONFIG_FILE).write_text(dump_json(described))
