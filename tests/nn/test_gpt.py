from __future__ import annotations

import copy
import math

import pytest
import torch

from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.gpt import LoopedGPT, build
from deeploop.nn.init import matrices, weights_in_matrices

SMALL = Backbone(hidden_size=768, layers=12, heads=6)
MEDIUM = Backbone(hidden_size=1024, layers=24, heads=8)
TINY = Backbone(hidden_size=16, layers=2, heads=2, context_length=12, vocab_size=29, ffn_hidden=21)


def config(backbone: Backbone = TINY, loops: int = 1, p: float = 0.5) -> GPTConfig:
    scaling = Scaling(alpha_exponent=p, beta_exponent=p)
    return GPTConfig(backbone=backbone, loops=loops, scaling=scaling)


def tokens_and_targets(vocab: int = 29, length: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randint(vocab, (3, length + 1), generator=torch.Generator().manual_seed(1))
    return drawn[:, :-1], drawn[:, 1:]


@pytest.mark.parametrize(("backbone", "weights"), [(SMALL, 123_568_128), (MEDIUM, 353_452_032)])
def test_presets_have_the_papers_weights(backbone: Backbone, weights: int) -> None:
    cell = config(backbone, loops=3)
    assert weights_in_matrices(cell) == weights
    with torch.device("meta"):
        model = LoopedGPT(cell)
    stored = sum(value.numel() for value in model.parameters() if value.ndim == 2)
    padding = 3 * backbone.layers * backbone.hidden_size * (-backbone.ffn_width % 8)
    assert stored - padding == weights


def test_looping_adds_no_weights() -> None:
    assert weights_in_matrices(config(loops=1)) == weights_in_matrices(config(loops=7))


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_one_loop_is_a_plain_stack(placement: str) -> None:
    cell = config(TINY.model_copy(update={"norm_placement": placement}))
    model = build(cell, seed=3, dtype=torch.float64)
    tokens, _ = tokens_and_targets()
    x = model.input_norm(model.embedding[tokens])
    cos, sin = model.cos[:12], model.sin[:12]
    for block in model.blocks:
        x = block(x, cos, sin)
    assert torch.equal(model.logits(tokens), model.final_norm(x) @ model.embedding.T)


@pytest.mark.parametrize("loops", [2, 3])
@pytest.mark.parametrize("checkpoint_rounds", [False, True])
def test_gradient_of_a_shared_block_is_the_sum_over_untied_copies(
    loops: int, checkpoint_rounds: bool
) -> None:
    cell = config(loops=loops)
    tied = build(cell, seed=4, dtype=torch.float64, checkpoint_rounds=checkpoint_rounds)
    untied = copy.deepcopy(tied)
    untied.checkpoint_rounds = False
    untied.config = config(loops=1)  # the copies below already stand for the rounds
    untied.blocks = torch.nn.ModuleList(
        copy.deepcopy(block) for _ in range(loops) for block in tied.blocks
    )
    tokens, targets = tokens_and_targets()
    losses = [model(tokens, targets) for model in (tied, untied)]
    for loss in losses:
        loss.backward()
    assert losses[0].item() == losses[1].item()
    for index, block in enumerate(tied.blocks):
        copies = [untied.blocks[index + round_ * 2] for round_ in range(loops)]
        for name, value in block.named_parameters():
            total = sum(dict(twin.named_parameters())[name].grad for twin in copies)
            torch.testing.assert_close(value.grad, total, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(tied.embedding.grad, untied.embedding.grad, rtol=1e-12, atol=1e-15)


def test_padding_of_the_feed_forward_changes_nothing_and_stays_zero() -> None:
    cell = config(loops=2)
    padded = build(cell, seed=5, dtype=torch.float64)
    plain = build(cell, seed=5, dtype=torch.float64)
    for block in plain.blocks:  # width 21 is stored as 24: cut the padding off
        gate, up = block.ffn.gate_up.data.chunk(2)
        block.ffn.gate_up = torch.nn.Parameter(torch.cat((gate[:21], up[:21])))
        block.ffn.down = torch.nn.Parameter(block.ffn.down.data[:, :21].contiguous())
    batch = tokens_and_targets()
    for model in (padded, plain):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(3):
            optimizer.zero_grad()
            model(*batch).backward()
            optimizer.step()
    torch.testing.assert_close(padded(*batch), plain(*batch), rtol=1e-12, atol=0)
    assert padded.blocks[0].ffn.down[:, 21:].abs().max() == 0
    assert padded.blocks[0].ffn.gate_up[21:24].abs().max() == 0
    assert padded.blocks[0].ffn.gate_up[45:].abs().max() == 0


def test_future_tokens_do_not_matter() -> None:
    model = build(config(loops=3), seed=6, dtype=torch.float64)
    tokens, _ = tokens_and_targets()
    changed = tokens.clone()
    changed[:, 7:] = 0
    assert torch.equal(model.logits(tokens)[:, :7], model.logits(changed)[:, :7])


def test_initial_values_of_base_and_deeploop_differ_by_beta_only() -> None:
    base, deep = config(p=0.0, loops=3), config(p=0.5, loops=3)
    models = [dict(build(cell, seed=7).named_parameters()) for cell in (base, deep)]
    beta = deep.residual_scale.beta
    for entry in matrices(deep):
        rows, columns = entry.shape
        ours, theirs = (
            model[entry.parameter][entry.row : entry.row + rows, :columns] for model in models
        )
        scaled = entry.name.rpartition(".")[2] in {"v", "o", "gate", "up", "down"}
        assert entry.gain == (beta if scaled else 1.0)
        torch.testing.assert_close(theirs, ours * entry.gain)


def test_a_matrix_starts_with_its_deviation() -> None:
    wide = Backbone(hidden_size=128, layers=1, heads=2, vocab_size=256)
    cell = config(wide, p=0.0)
    stored = dict(build(cell, seed=8).named_parameters())
    for entry in matrices(cell):
        rows, columns = entry.shape
        part = stored[entry.parameter][entry.row : entry.row + rows, :columns]
        assert part.std().item() == pytest.approx(entry.std, rel=0.03)
    assert {entry.std for entry in matrices(cell)} == {0.02, 0.5 / math.sqrt(128)}


def test_first_loss_of_a_beta_shrunk_model_is_its_own_tokens_logit() -> None:
    """With input norm, tied head and hardly any branch the head sees the token that came in.

    Its logit is hidden_size * embedding_std = 15.4 above the rest, and the target is another.
    """
    model = build(config(SMALL, loops=3), seed=0)
    drawn = torch.randint(50257, (1, 65), generator=torch.Generator().manual_seed(2))
    loss = model.token_losses(drawn[:, :-1], drawn[:, 1:]).mean().item()
    assert loss == pytest.approx(15.4, abs=0.15)
    assert math.log(50304) == pytest.approx(10.83, abs=0.01)
