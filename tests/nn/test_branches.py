from __future__ import annotations

import torch

from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.gpt import build


def test_branches_of_one_row_equal_separate_sequences() -> None:
    backbone = Backbone(hidden_size=32, layers=2, heads=2, context_length=12, vocab_size=50)
    scaling = Scaling(alpha_exponent=0.5, beta_exponent=0.5)
    model = build(GPTConfig(backbone=backbone, loops=2, scaling=scaling), 0, dtype=torch.float64)
    front, left, right = [3, 1, 4, 1], [5, 9, 2], [6, 5, 3, 5, 8]
    tokens = torch.tensor([front + left + right])  # 12 positions would not hold it in sequence
    positions = torch.tensor([[*range(4), *range(4, 7), *range(4, 9)]])
    branch = torch.tensor([0] * 4 + [1] * 3 + [2] * 5)
    seen = (branch[None] == 0) | (branch[None] == branch[:, None])
    mask = (seen & torch.ones(12, 12, dtype=torch.bool).tril())[None, None]
    together = model.branched(tokens, positions, mask)[0]
    torch.testing.assert_close(together[:7], model.hidden(torch.tensor([front + left]))[0])
    torch.testing.assert_close(together[7:], model.hidden(torch.tensor([front + right]))[0][4:])
