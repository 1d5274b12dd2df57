from __future__ import annotations

import torch

from bench.plain_hrm import plain_sign_sgd
from deeploop.training.sparse_sign import SparseSignSGD, sign_step
from deeploop.training.world import World


def test_repeated_rows_are_summed_and_only_touched_rows_change() -> None:
    table = torch.ones(5, 2)
    rows = torch.tensor([3, 1, 3], dtype=torch.int32)
    gradients = torch.tensor([[1.0, -1.0], [0.0, 2.0], [-3.0, -1.0]])
    sign_step(table, rows, gradients, lr=0.1, weight_decay=0.5)
    decayed = 1 - 0.1 * 0.5
    torch.testing.assert_close(table[3], torch.tensor([decayed + 0.1, decayed + 0.1]))
    torch.testing.assert_close(table[1], torch.tensor([decayed, decayed - 0.1]))
    assert torch.equal(table[[0, 2, 4]], torch.ones(3, 2))


def test_it_equals_the_plain_loop() -> None:
    draw = torch.Generator().manual_seed(0)
    ours = torch.randn(20, 8, generator=draw)
    theirs = ours.clone()
    for _ in range(5):
        rows = torch.randint(0, 20, (16,), generator=draw)
        gradients = torch.randn(16, 8, generator=draw)
        sign_step(ours, rows, gradients, 0.01, 0.1)
        plain_sign_sgd(theirs, rows, gradients, 0.01, 0.1)
    torch.testing.assert_close(ours, theirs)


def test_borrowed_rows_train_the_table_once_a_step() -> None:
    table = torch.zeros(4, 3)
    optimizer = SparseSignSGD(table, 0.5, 0.0, World(torch.device("cpu")))
    for rows in ([2, 0], [2, 3]):
        leaf = optimizer.borrow(torch.tensor(rows))
        (leaf * torch.tensor([[2.0], [-1.0]])).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    assert table[:, 0].tolist() == [0.5, 0.0, -0.5, 0.5]
    assert not optimizer.borrowed
