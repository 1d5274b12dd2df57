"""Text from a looped GPT: cached decoding, greedy or sampled."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from deeploop.errors import UserError
from deeploop.nn.cache import GrowingCache
from deeploop.nn.gpt import LoopedGPT


@torch.no_grad()
def generate(
    model: LoopedGPT,
    prompt: Tensor,
    new_tokens: int,
    temperature: float = 0.0,
    top_k: int | None = None,
    seed: int = 0,
    vocabulary: int | None = None,
) -> Iterator[Tensor]:
    """Yield the next tokens one by one, each int64 [batch].

    Args:
        model: on the prompt's device.
        prompt: [batch, length], int64, at least one token.
        new_tokens: how many to yield.
        temperature: 0 takes the most probable token; otherwise tokens are drawn.
        top_k: draw among so many most probable tokens only.
        seed: of the draws.
        vocabulary: only tokens below this; the model may have padding beyond the tokenizer's.

    Raises:
        UserError: the prompt is empty, or prompt and new tokens exceed the context length.
    """
    context, length = model.config.backbone.context_length, prompt.shape[1]
    if length == 0:
        raise UserError("the prompt has no tokens: give at least one")
    if length + new_tokens > context:
        raise UserError(
            f"{length} prompt tokens and {new_tokens} new ones exceed the model's context of "
            f"{context}: shorten one of them"
        )
    cache = GrowingCache(model.config.loops * model.config.backbone.layers)
    draws = torch.Generator(prompt.device).manual_seed(seed)
    tokens = prompt
    for _ in range(new_tokens):
        states = model.decode(tokens, cache, cache.length)
        logits = F.linear(states[:, -1], model.embedding[:vocabulary])
        chosen = _choose(logits.float(), temperature, top_k, draws)
        yield chosen
        tokens = chosen[:, None]


def _choose(
    logits: Tensor, temperature: float, top_k: int | None, draws: torch.Generator
) -> Tensor:
    if temperature == 0:
        return logits.argmax(dim=-1)
    if top_k is not None:
        least = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    probabilities = (logits / temperature).softmax(dim=-1)
    return torch.multinomial(probabilities, 1, generator=draws)[:, 0]
