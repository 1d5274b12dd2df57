from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from deeploop.nn import loss


@pytest.mark.parametrize("held", [7, 40, 1000])
def test_chunked_loss_and_gradients_are_the_full_ones(
    monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setitem(loss.CHUNK_LOGITS, "cpu", held)  # 13 chunks, 3 chunks, one
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(13, 5, dtype=torch.float64, generator=draw, requires_grad=True)
    head = torch.randn(7, 5, dtype=torch.float64, generator=draw, requires_grad=True)
    targets = torch.randint(7, (13,), generator=draw)
    chunked = loss.cross_entropy(hidden, head, targets)
    full = F.cross_entropy(hidden @ head.T, targets)
    torch.testing.assert_close(chunked, full, rtol=1e-13, atol=0)
    ours = torch.autograd.grad(3 * chunked, (hidden, head))
    theirs = torch.autograd.grad(3 * full, (hidden, head))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)


def test_token_losses_are_cross_entropies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loss.CHUNK_LOGITS, "cpu", 21)
    hidden, head = torch.randn(8, 5), torch.randn(7, 5)
    targets = torch.arange(8) % 7
    expected = F.cross_entropy(hidden @ head.T, targets, reduction="none")
    torch.testing.assert_close(loss.token_cross_entropy(hidden, head, targets), expected)


def test_autocast_keeps_masters_gradients_in_fp32() -> None:
    hidden = torch.randn(64, 32, requires_grad=True)
    head = torch.randn(50, 32, requires_grad=True)
    targets = torch.arange(64) % 50
    with torch.autocast("cpu", torch.bfloat16):
        narrow = loss.cross_entropy(hidden, head, targets)
    narrow.backward()
    full = F.cross_entropy(hidden @ head.T, targets)
    assert head.grad is not None and head.grad.dtype == torch.float32
    torch.testing.assert_close(narrow, full, rtol=2e-2, atol=0)
    (expected,) = torch.autograd.grad(full, head)
    torch.testing.assert_close(head.grad, expected, rtol=0.1, atol=5e-3)
