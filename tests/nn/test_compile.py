from __future__ import annotations

import shutil

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.gpt import LoopedGPT, build


def model(checkpoint_rounds: bool = False) -> LoopedGPT:
    backbone = Backbone(
        hidden_size=16, layers=2, heads=2, context_length=12, vocab_size=29, ffn_hidden=21
    )
    config = GPTConfig(
        backbone=backbone, loops=3, scaling=Scaling(alpha_exponent=0.5, beta_exponent=0.5)
    )
    return build(config, seed=1, checkpoint_rounds=checkpoint_rounds)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randint(29, (3, 13), generator=torch.Generator().manual_seed(1))
    return drawn[:, :-1], drawn[:, 1:]


def gradients(gpt: LoopedGPT) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(gpt(*batch()), tuple(gpt.parameters()))


@pytest.mark.parametrize("checkpoint_rounds", [False, True])
def test_all_visits_of_all_blocks_share_one_compilation(checkpoint_rounds: bool) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = model(checkpoint_rounds)
    compiled.compile_blocks(backend=counter)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(2):
            found = gradients(compiled)
    assert counter.frame_count == 1
    torch.testing.assert_close(found, gradients(model()), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler on CPUs")
def test_generated_code_equals_eager() -> None:
    torch._dynamo.reset()
    compiled = model()
    compiled.compile_blocks()
    torch.testing.assert_close(gradients(compiled), gradients(model()), rtol=1e-4, atol=1e-6)
