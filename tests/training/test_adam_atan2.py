from __future__ import annotations

import math

import pytest
import torch

from bench.plain_hrm import PlainAdamATan2
from deeploop.training.adam_atan2 import AdamATan2
from deeploop.training.optim import load_optimizer_tensors, optimizer_tensors

SHAPES = [(3, 4), (5,), (2, 2, 2)]


def parameters(seed: int = 0, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw, dtype=dtype).requires_grad_() for shape in SHAPES]


def set_gradients(params: list[torch.Tensor], seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    for param in params:
        param.grad = torch.randn(param.shape, generator=draw, dtype=param.dtype)


def test_the_first_update_is_the_formula_of_0_0_3() -> None:
    param = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    param.grad = torch.tensor([-3.0], dtype=torch.float64)
    AdamATan2([param], lr=0.01, betas=(0.9, 0.95), weight_decay=0.1).step()
    moment, spread = 0.1 * -3.0, math.sqrt(0.05 * 9) / math.sqrt(0.05)
    expected = 2.0 * (1 - 0.001) - 0.01 / 0.1 * math.atan2(moment, spread)
    assert param.item() == pytest.approx(expected, rel=1e-14)
    inside = 2.0 * (1 - 0.001) - 0.01 * math.atan2(moment / 0.1, spread)
    assert abs(param.item() - inside) > 1e-3, "0.0.2 corrected the first moment inside"


def test_many_updates_equal_the_plain_loop() -> None:
    ours, theirs = parameters(), parameters()
    optimizer = AdamATan2(ours, lr=0.02, betas=(0.9, 0.95), weight_decay=0.1)
    plain = PlainAdamATan2(theirs, lr=0.02, betas=(0.9, 0.95), wd=0.1)
    for step in range(20):
        set_gradients(ours, step)
        set_gradients(theirs, step)
        optimizer.step()
        plain.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)


def test_updates_do_not_depend_on_the_gradients_scale() -> None:
    small, large = parameters(), parameters()
    for params, scale in ((small, 1e-20), (large, 1e20)):
        optimizer = AdamATan2(params, lr=0.1)
        for step in range(3):
            set_gradients(params, step)
            for param in params:
                param.grad = param.grad * scale
            optimizer.step()
    for one, other in zip(small, large, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


def test_a_zero_gradient_moves_nothing_but_decay_does() -> None:
    param = torch.ones(3, requires_grad=True)
    param.grad = torch.zeros(3)
    AdamATan2([param], lr=0.1, weight_decay=0.5).step()
    assert torch.equal(param.detach(), torch.full((3,), 0.95))


def test_saved_and_loaded_it_goes_on_to_the_same_bits() -> None:
    whole, halves = parameters(dtype=torch.float32), parameters(dtype=torch.float32)
    optimizer = AdamATan2(whole, lr=0.1)
    for step in range(6):
        set_gradients(whole, step)
        optimizer.step()
    state: dict[str, torch.Tensor] = {}
    for half in (range(3), range(3, 6)):
        optimizer = AdamATan2(halves, lr=0.1)
        load_optimizer_tensors([optimizer], state)
        for step in half:
            set_gradients(halves, step)
            optimizer.step()
        state = optimizer_tensors([optimizer])
    for one, other in zip(whole, halves, strict=True):
        assert torch.equal(one, other)
