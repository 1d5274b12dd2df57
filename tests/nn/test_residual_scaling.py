from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import deeploop
from deeploop.errors import UserError
from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.gpt import build
from deeploop.nn.init import matrices
from deeploop.nn.residual_scaling import Part

DOCUMENT = Path(__file__).parents[2] / "docs" / "scaling.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
BLOCKS, LOOPS = 2, 3
SHAPE = Backbone(
    hidden_size=16, layers=BLOCKS, heads=2, context_length=12, vocab_size=29, ffn_hidden=24
)
PAPERS_SET = [
    Part("blocks.*.attention.qkv", take=(2,), of=3),
    "blocks.*.attention.o",
    "blocks.*.ffn.*",
]


def gpt(p: float) -> nn.Module:
    rule = Scaling(alpha_exponent=p, beta_exponent=p)
    return build(GPTConfig(backbone=SHAPE, loops=LOOPS, scaling=rule), seed=1, dtype=torch.float64)


def apply(model: nn.Module, choices: list[str | Part], rule: str | float = "deeploop"):  # type: ignore[no-untyped-def]
    return deeploop.apply_residual_scaling(
        model, rule, blocks=BLOCKS, loops=LOOPS, matrices=choices
    )


def test_a_base_model_becomes_the_one_we_build() -> None:
    base, ours = gpt(0.0), gpt(0.5)
    applied = apply(base, PAPERS_SET)
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(base.get_parameter(name), parameter, rtol=1e-6, atol=0)
    assert applied.alpha == 12**0.5
    assert applied.beta == 48**-0.5


def test_the_record_says_what_was_touched() -> None:
    model = gpt(0.0)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    record = apply(model, PAPERS_SET).matrices
    scaled = [m for m in matrices(model.config) if m.name.split(".")[-1] in "v o gate up down"]
    assert sum(entry.of(before[entry.name]).numel() for entry in record) == sum(
        rows * columns for rows, columns in (entry.shape for entry in scaled)
    )
    assert record[0].rows == (32, 48)
    for entry in record:  # undone by the record, everything is as it was
        entry.of(model.get_parameter(entry.name)).data.div_(48**-0.5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter, before[name])


@pytest.mark.parametrize("example", range(len(EXAMPLES)))
def test_the_documented_examples_run(example: int) -> None:
    if "transformers" in EXAMPLES[example]:
        pytest.importorskip("transformers")
    exec(compile(EXAMPLES[example], f"{DOCUMENT.name}, example {example}", "exec"), {})


def test_dividing_the_branch_is_multiplying_the_stream() -> None:
    x, branch = torch.randn(2, 5, 64, dtype=torch.float64, generator=torch.Generator())
    norm = nn.RMSNorm(64, eps=0.0).double()
    torch.testing.assert_close(norm(3.5 * x + branch), norm(x + branch / 3.5), rtol=1e-12, atol=0)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight


@pytest.mark.parametrize(
    ("model", "choices", "message"),
    [
        (gpt(0.0), ["blocks.*.attn.o"], r"'blocks.*.attn.o' matches no parameter; .* embedding"),
        (gpt(0.0), ["blocks.*.ffn.*", "blocks.1.ffn.down"], "blocks.1.ffn.down is matched twice"),
        (
            gpt(0.0),
            [Part("*.qkv", (1, 2), 3), Part("*.0.attention.qkv", (2,), 3)],
            "qkv is matched twice",
        ),
        (gpt(0.0), ["*.attention_norm.*"], "no matrix"),
        (gpt(0.0), [Part("*.qkv", (2,), 5)], "no 5 equal parts"),
        (gpt(0.0), [Part("*.qkv", (3,), 3)], "parts 0 to 2"),
        (gpt(0.0), [Part("*.qkv", (0,), 3, dim=2)], "along 2"),
        (Shared(), ["*.weight"], "first.weight, shared as second.weight, is matched twice"),
        (gpt(0.0), "blocks.*.ffn.*", "give a list"),
    ],
)
def test_wrong_patterns_change_nothing(model, choices, message: str) -> None:  # type: ignore[no-untyped-def]
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    with pytest.raises(UserError, match=message):
        apply(model, choices)
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())


def test_parts_of_one_fused_matrix_do_not_collide() -> None:
    record = apply(gpt(0.0), [Part("*.0.attention.qkv", (0,), 3), Part("*.0.*.qkv", (2,), 3)])
    assert [entry.rows for entry in record.matrices] == [(0, 16), (32, 48)]


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'deepnorm'"):
        apply(gpt(0.0), PAPERS_SET, rule="deep-norm")
