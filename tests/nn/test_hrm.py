from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from bench.plain_hrm import PlainHRM, first_carry, train_step
from deeploop.nn.hrm import HRM, States, block_matrices, initialise, residual_branches
from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.hrm_flops import blocks_visited, blocks_with_gradient
from deeploop.nn.hrm_halting import (
    Batch,
    Exploration,
    admit,
    empty_carry,
    segment_loss,
    train_segment,
)
from deeploop.scaling import hrm_gradient_depth, hrm_gradient_visits, hrm_visits

SIZES: dict[str, Any] = {
    "sequence_length": 9,
    "vocab_size": 12,
    "identifiers": 5,
    "puzzle_embedding_size": 32,
    "hidden_size": 32,
    "heads": 2,
    "h_layers": 2,
    "l_layers": 1,
    "halt_max_steps": 3,
    "precision": "fp32",
}
ARC = {"sequence_length": 900, "vocab_size": 12, "identifiers": 1}


def built(seed: int = 0, **settings: Any) -> HRM:
    model = HRM(HRMConfig(**(SIZES | settings)))
    initialise(model, seed)
    return model


def batch_of(config: HRMConfig, rows: int = 3) -> Batch:
    draw = torch.Generator().manual_seed(5)
    size = (rows, config.sequence_length)
    inputs = torch.randint(0, config.vocab_size, size, generator=draw)
    labels = torch.randint(0, config.vocab_size, size, generator=draw)
    return Batch(inputs, labels, torch.arange(rows) % config.identifiers)


def one_segment(model: HRM) -> Tensor:
    batch = batch_of(model.config)
    carry = admit(model, empty_carry(model, batch), batch)
    puzzle = model.puzzle_rows(batch.puzzles)
    draws = Exploration(torch.ones(3), torch.zeros(3))
    return segment_loss(model, train_segment(model, carry, puzzle, draws))[0]


def visits(model: HRM, settings: dict[str, Any]) -> Counter[tuple[str, bool]]:
    """Count block visits of one training segment by module and by whether gradient flows."""
    seen: Counter[tuple[str, bool]] = Counter()
    for name, level in (("H", model.H_level), ("L", model.L_level)):
        for block in level.layers:
            block.register_forward_hook(
                lambda *_, name=name: seen.update([(name, torch.is_grad_enabled())])
            )
    one_segment(model)
    return seen


@pytest.mark.parametrize(("gradient", "l_seen"), [("last_step", 1), ("last_cycle", 3)])
def test_visits_counted_with_hooks_agree_with_the_papers_counts(gradient: str, l_seen: int) -> None:
    settings = {"h_layers": 2, "l_layers": 3, "h_cycles": 2, "l_cycles": 3, "gradient": gradient}
    model = built(**settings)
    seen = visits(model, settings)
    with_gradient = seen["H", True] + seen["L", True]
    assert (seen["H", True], seen["L", True]) == (2, 3 * l_seen)
    assert with_gradient == blocks_with_gradient(model.config)
    # One forward with gradient, and the target-Q pass: M counts the sublayers of one of them.
    assert 2 * seen.total() == 2 * hrm_visits(2, 3, 2, 3)
    assert seen.total() == 2 * blocks_visited(model.config)
    if gradient == "last_cycle":
        assert 2 * with_gradient == hrm_gradient_visits(2, 3, 3)
        assert seen["L", True] == 3 * 3, "R_g of L is C_L, a block"
    assert seen["H", True] == 2, "R_g of H is 1, a block"


def test_the_published_configuration() -> None:
    config = HRMConfig(**ARC)
    assert hrm_gradient_visits(4, 4, 2) == 24
    assert config.gradient_depth == hrm_gradient_depth(4, 4, 2) == 12
    with torch.device("meta"):
        model = HRM(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == 27_276_290
    assert config.ffn_hidden == 1536 and config.puzzle_positions == 1


@pytest.mark.parametrize("gradient", ["last_step", "last_cycle"])
@pytest.mark.parametrize("scaling", [{}, {"rule": "custom", "h": {"alpha": 0.25, "beta": 0.5},
                                          "l": {"alpha": 0.5, "beta": 0.25}}])  # fmt: skip
def test_loss_and_gradients_equal_the_plain_model(gradient: str, scaling: dict[str, Any]) -> None:
    model = built(gradient=gradient, scaling=scaling, entry_norm=True, precision="fp64", l_cycles=3)
    with torch.no_grad():
        model.q_head.weight.normal_()
        model.puzzle_emb.weights.normal_()
    plain = PlainHRM(model.config)
    plain.load_state_dict(model.state_dict())
    batch = batch_of(model.config)
    named = dict(zip(("inputs", "labels", "puzzle_identifiers"), batch, strict=True))
    ours, theirs = (
        one_segment(model),
        train_step(plain, first_carry(plain, named), named, torch.ones(3), torch.zeros(3))[0],
    )
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    ours.backward()
    theirs.backward()
    expected = dict(plain.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=1e-9, atol=1e-12)


def test_vanilla_is_the_unscaled_sublayer_to_the_bit() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        block = built().H_level.layers[0].to(dtype)
        x, branch = torch.randn(2, 4, 32, dtype=dtype), torch.randn(2, 4, 32, dtype=dtype)
        joined = block._join(x, branch)
        assert torch.equal(joined, F.rms_norm(x + branch, (32,), eps=1e-5))


def test_vanilla_p_zero_and_the_other_rules_start_from_the_same_draws() -> None:
    vanilla, zero = built(), built(scaling={"rule": "custom", "p": 0.0})
    assert not residual_branches(vanilla)
    for name, value in vanilla.state_dict().items():
        assert torch.equal(value, zero.state_dict()[name]), name
    assert torch.equal(one_segment(vanilla), one_segment(zero))


@pytest.mark.parametrize(
    ("targets", "scaled"),
    [
        ("deepnorm", {"v", "o", "gate", "up", "down"}),
        ("deepnorm_no_gate", {"v", "o", "up", "down"}),
        ("output", {"o", "down"}),
    ],
)
def test_beta_reaches_its_slices_and_no_other(targets: str, scaled: set[str]) -> None:
    scaling = {
        "rule": "custom",
        "h": {"alpha": 0.1, "beta": 0.5},
        "l": {"alpha": 0.2, "beta": 0.25},
        "beta_targets": targets,
    }
    base, model = built(seed=3), built(seed=3, scaling=scaling)
    depth = 2 + 2 * 1
    betas = {"H": (8 * depth) ** -0.5, "L": (8 * depth) ** -0.25}
    alphas = {"H": (2 * depth) ** 0.1, "L": (2 * depth) ** 0.2}
    for module, level, other in (
        ("H", model.H_level, base.H_level),
        ("L", model.L_level, base.L_level),
    ):
        for block, plain in zip(level.layers, other.layers, strict=True):
            assert block.alpha == pytest.approx(alphas[module], rel=1e-15)
            before = block_matrices(plain)
            for name, matrix in block_matrices(block).items():
                gain = betas[module] if name in scaled else 1.0
                torch.testing.assert_close(matrix, before[name] * gain, rtol=1e-6, atol=0)
    for name in ("embed_tokens.embedding_weight", "lm_head.weight", "H_init", "q_head.bias"):
        assert torch.equal(model.state_dict()[name], base.state_dict()[name])


def test_deeploop_takes_n_g_from_the_paper_or_as_given() -> None:
    config = HRMConfig(**ARC, scaling={"rule": "deeploop"})
    assert config.alpha("H") == config.alpha("L") == 24**0.5
    assert config.beta("H") == 96**-0.5
    fewer = HRMConfig(**ARC, scaling={"rule": "deeploop", "n_g": 8})
    assert (fewer.alpha("L"), fewer.beta("L")) == (4.0, 0.125)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "deeploop", "p": 0.4}, "fixes the exponents"),
        ({"rule": "custom"}, "needs p, or both h and l"),
        ({"rule": "custom", "h": {"alpha": 0.5, "beta": 0.5}}, "needs p, or both"),
        ({"rule": "post"}, "vanilla"),
    ],
)
def test_scaling_that_means_nothing_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HRMConfig(**ARC, scaling=settings)


def test_start_values_are_the_published_ones() -> None:
    model = built(hidden_size=256, heads=4, puzzle_embedding_size=256)
    weights = model.state_dict()
    assert weights["q_head.weight"].abs().max() == 0
    assert weights["q_head.bias"].tolist() == [-5, -5]
    assert weights["puzzle_emb.weights"].abs().max() == 0
    for name, fan_in in (
        ("H_level.layers.0.self_attn.qkv_proj.weight", 256),
        ("L_level.layers.0.mlp.down_proj.weight", model.config.ffn_hidden),
        ("embed_tokens.embedding_weight", 256),
    ):
        values = weights[name]
        assert values.std().item() == pytest.approx(fan_in**-0.5, rel=0.05)
        assert values.abs().max() <= 2 / 0.8796 * fan_in**-0.5
    assert weights["H_init"].std().item() == pytest.approx(1, rel=0.2)


def test_the_halting_pass_reads_the_same_logits_as_the_full_forward() -> None:
    model = built(precision="fp64", puzzle_embedding_size=0)
    with torch.no_grad():
        model.q_head.weight.normal_()
    batch = batch_of(model.config)
    carry = admit(model, empty_carry(model, batch), batch)
    thought = model(carry.states, batch.inputs, None)
    for ours, full in zip(
        model.halting(carry.states, thought.embedding),
        (thought.q_halt, thought.q_continue),
        strict=True,
    ):
        torch.testing.assert_close(ours, full, rtol=1e-12, atol=1e-12)


def test_the_entry_norm_gives_every_position_unit_size() -> None:
    model = built(entry_norm=True)
    model.puzzle_emb.weights.normal_()
    batch = batch_of(model.config)
    embedding = model.embed(batch.inputs, model.puzzle_rows(batch.puzzles))
    sizes = embedding.square().mean(-1).sqrt()
    torch.testing.assert_close(sizes, torch.ones_like(sizes), atol=1e-3, rtol=0)


def test_gradient_reaches_the_input_embedding_through_the_visible_visits_only() -> None:
    model = built(l_cycles=2)
    batch = batch_of(model.config)
    carry = admit(model, empty_carry(model, batch), batch)
    states = States(*(state.clone().requires_grad_() for state in carry.states))
    puzzle = model.puzzle_rows(batch.puzzles)
    assert puzzle is not None
    puzzle.requires_grad_()
    model(states, batch.inputs, puzzle).logits.sum().backward()
    assert puzzle.grad is not None and puzzle.grad.abs().max() > 0
    assert states.z_h.grad is None and states.z_l.grad is None
