from __future__ import annotations

import pytest
import torch

from deeploop.nn.stablemax import IGNORED_LABEL, log_stablemax, token_losses


def test_probabilities_are_the_definitions() -> None:
    logits = torch.tensor([[-3.0, -0.5, 0.0, 2.0]], dtype=torch.float64)
    scores = torch.tensor([1 / 4, 1 / 1.5, 1.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(log_stablemax(logits)[0].exp(), scores / scores.sum())


def test_gradients_are_right_and_finite_at_extremes() -> None:
    logits = torch.tensor([[-2.0, -1e-3, 1e-3, 1.0, 5.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_stablemax, logits)
    extreme = torch.tensor([[-1e30, 0.0, 1.0, 1e30]], requires_grad=True)
    token_losses(extreme, torch.tensor([1]), "stablemax").sum().backward()
    assert extreme.grad is not None and extreme.grad.isfinite().all()


@pytest.mark.parametrize("loss", ["stablemax", "softmax"])
def test_ignored_tokens_cost_nothing_and_get_no_gradient(loss: str) -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    labels = torch.tensor([[1, IGNORED_LABEL, 4], [IGNORED_LABEL] * 3])
    losses = token_losses(logits, labels, loss)
    assert losses.dtype == (torch.float64 if loss == "stablemax" else torch.float32)
    assert (losses[labels == IGNORED_LABEL] == 0).all() and (losses[0, [0, 2]] > 0).all()
    losses.sum().backward()
    assert logits.grad is not None
    assert (logits.grad[labels == IGNORED_LABEL] == 0).all()


def test_softmax_is_cross_entropy() -> None:
    logits, labels = torch.randn(4, 6), torch.tensor([0, 5, 2, 2])
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(token_losses(logits, labels, "softmax"), expected)
