from __future__ import annotations

import pytest
import torch

from deeploop.errors import UserError
from deeploop.nn.cache import GrowingCache
from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.generate import generate
from deeploop.nn.gpt import LoopedGPT, build


def model(loops: int, placement: str = "post") -> LoopedGPT:
    backbone = Backbone(
        hidden_size=16,
        layers=2,
        heads=2,
        context_length=24,
        vocab_size=29,
        embedding_std=1.0,
        norm_placement=placement,
    )
    scaling = Scaling(alpha_exponent=0.25, beta_exponent=0.25)
    config = GPTConfig(backbone=backbone, loops=loops, scaling=scaling)
    return build(config, seed=1, dtype=torch.float64).eval()


def prompt(length: int = 9) -> torch.Tensor:
    return torch.randint(29, (3, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("loops", [1, 3])
@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("pieces", [[9], [1] * 9, [4, 1, 3, 1]])
def test_cached_decoding_is_the_full_forward(loops: int, placement: str, pieces: list[int]) -> None:
    gpt, tokens = model(loops, placement), prompt()
    cache = GrowingCache(2 * loops)
    states = [gpt.decode(part, cache, cache.length) for part in tokens.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(states, dim=1), gpt.hidden(tokens), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("loops", [1, 3])
def test_greedy_generation_takes_what_the_full_forward_prefers(loops: int) -> None:
    gpt, tokens = model(loops), prompt()
    made = torch.stack(list(generate(gpt, tokens, 12)), dim=1)
    for _ in range(12):
        best = gpt.logits(tokens)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat((tokens, best), dim=1)
    assert torch.equal(made, tokens[:, 9:])


def test_padding_that_is_masked_does_not_matter() -> None:
    """Rotary positions are relative, so a shift by padding on the left changes nothing else."""
    gpt, tokens = model(3), prompt()
    padded = torch.cat((torch.zeros(3, 4, dtype=torch.int64), tokens), dim=1)
    mask = torch.arange(13).expand(3, 13) >= 4
    states = gpt.decode(padded, GrowingCache(6), 0, mask)[:, 4:]
    torch.testing.assert_close(states, gpt.hidden(tokens), rtol=1e-5, atol=1e-6)


def test_sampling_repeats_by_seed_and_obeys_top_k() -> None:
    gpt, tokens = model(3), prompt()
    draws = [
        torch.stack(list(generate(gpt, tokens, 10, temperature=1.0, top_k=k, seed=seed)))
        for k, seed in ((None, 1), (None, 1), (None, 2), (1, 3))
    ]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    assert torch.equal(draws[3], torch.stack(list(generate(gpt, tokens, 10))))


def test_more_than_the_context_is_refused() -> None:
    with pytest.raises(UserError, match="exceed the model's context of 24"):
        next(generate(model(1), prompt(20), 5))
    with pytest.raises(UserError, match="no tokens"):
        next(generate(model(1), prompt(0), 5))
