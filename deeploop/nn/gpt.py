"""The looped GPT: K blocks applied R times, residuals scaled (sections 2 and 5.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from deeploop.nn.cache import Cache, Past, Uncached, decoding_mask
from deeploop.nn.config import Backbone, GPTConfig
from deeploop.nn.init import initialize
from deeploop.nn.layers import Attention, RMSNorm, SwiGLU, matrix, rotation
from deeploop.nn.loss import cross_entropy, token_cross_entropy


class Block(nn.Module):
    """Attention and feed-forward, each x <- Norm(alpha * x + f(x)), or alpha * x + f(Norm(x))."""

    def __init__(self, shape: Backbone, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.post = shape.norm_placement == "post"
        self.attention = Attention(
            shape.hidden_size,
            shape.heads,
            qk_norm_epsilon=shape.norm_epsilon if shape.qk_norm else None,
            qk_norm_gain=shape.norm_gains,
        )
        self.attention_norm = _norm(shape)
        self.ffn = SwiGLU(shape.hidden_size, shape.ffn_width)
        self.ffn_norm = _norm(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, past: Past | None = None) -> Tensor:
        """Pass the stream [batch, length, hidden_size] through both sublayers."""
        if self.post:
            x = self.attention_norm(
                torch.add(self.attention(x, cos, sin, past), x, alpha=self.alpha)
            )
            return self.ffn_norm(torch.add(self.ffn(x), x, alpha=self.alpha))
        x = torch.add(self.attention(self.attention_norm(x), cos, sin, past), x, alpha=self.alpha)
        return torch.add(self.ffn(self.ffn_norm(x)), x, alpha=self.alpha)


class LoopedGPT(nn.Module):
    """A causal language model that applies its blocks `loops` times; the head is tied."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: GPTConfig, checkpoint_rounds: bool = False) -> None:
        """Make the model, uninitialised; `checkpoint_rounds` recomputes each round backwards."""
        super().__init__()
        self.config, self.checkpoint_rounds = config, checkpoint_rounds
        shape, alpha = config.backbone, config.residual_scale.alpha
        self.embedding = matrix(shape.vocab_size, shape.hidden_size)
        self.input_norm = _norm(shape) if shape.input_norm else nn.Identity()
        self.blocks = nn.ModuleList(Block(shape, alpha) for _ in range(shape.layers))
        self.final_norm = _norm(shape) if shape.final_norm else nn.Identity()
        cos, sin = rotation(shape.context_length, shape.head_size, shape.rope_base)
        # [length, 1, 1, head_size / 2]: broadcasts over (q, k) and heads
        self.register_buffer("cos", cos[:, None, None], persistent=False)
        self.register_buffer("sin", sin[:, None, None], persistent=False)

    def hidden(self, tokens: Tensor, prefix: Tensor | None = None) -> Tensor:
        """Return the states that the head reads, [batch, length, hidden_size].

        Args:
            tokens: [batch, length], int64, length at most the context length.
            prefix: embeddings of positions before the tokens, [batch, n, hidden_size]; the length
                counts them too.
        """
        x = self._embedded(tokens, prefix)
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        for _ in range(self.config.loops):
            if self.checkpoint_rounds and torch.is_grad_enabled():
                x = checkpoint(
                    self._round, x, cos, sin, use_reentrant=False, preserve_rng_state=False
                )
            else:
                x = self._round(x, cos, sin)
        normed: Tensor = self.final_norm(x)
        return normed

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy of `targets`, [batch, length] like `tokens`; a scalar."""
        return cross_entropy(self.hidden(tokens).flatten(0, 1), self.embedding, targets.flatten())

    def token_losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy of every target, [batch, length], without gradients."""
        with torch.no_grad():
            states = self.hidden(tokens).flatten(0, 1)
            return token_cross_entropy(states, self.embedding, targets.flatten()).view_as(targets)

    def logits(self, tokens: Tensor) -> Tensor:
        """Return next-token logits at every position, [batch, length, vocab_size]."""
        return F.linear(self.hidden(tokens), self.embedding)

    def decode(
        self,
        tokens: Tensor,
        cache: Cache,
        start: int,
        mask: Tensor | None = None,
        prefix: Tensor | None = None,
    ) -> Tensor:
        """Return the states of tokens that follow `start` others, whose keys `cache` holds.

        Args:
            tokens: [batch, new], int64; start + new is at most the context length.
            cache: K * R slots; the new keys and values are added.
            start: positions held so far.
            mask: which positions may be seen at all, bool [batch, start + new]: false for padding.
            prefix: as for `hidden`; its positions are new ones, before the tokens.
        """
        x = self._embedded(tokens, prefix)
        new, held = x.shape[1], start + x.shape[1]
        visible = decoding_mask(new, held, tokens.device) if new > 1 else None
        if mask is not None:
            seen = mask[:, None, None, :]
            visible = seen if visible is None else visible & seen
        cos, sin = self.cos[start:held], self.sin[start:held]
        visits = (block for _ in range(self.config.loops) for block in self.blocks)
        for slot, block in enumerate(visits):
            x = block(x, cos, sin, Past(cache, slot, visible))
        normed: Tensor = self.final_norm(x)
        return normed

    def branched(self, tokens: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Return the states of rows that each hold several continuations of one text.

        Args:
            tokens: [batch, length], int64; a row may be longer than the context length.
            positions: [batch, length]: each token's place in its own sequence, below the context
                length.
            mask: which tokens each one sees, bool [batch, 1, length, length].
        """
        x = self._embedded(tokens)
        cos, sin = self.cos[positions], self.sin[positions]
        for _ in range(self.config.loops):
            for block in self.blocks:
                x = block(x, cos, sin, Past(Uncached(), 0, mask))
        normed: Tensor = self.final_norm(x)
        return normed

    def compile_blocks(self, backend: str | Callable[..., Any] = "inductor") -> None:
        """Compile a block's forward: all K * R visits share one graph."""
        for block in self.blocks:
            block.compile(fullgraph=True, backend=backend)

    def _embedded(self, tokens: Tensor, prefix: Tensor | None = None) -> Tensor:
        x = F.embedding(tokens, self.embedding)
        normed: Tensor = self.input_norm(x if prefix is None else torch.cat((prefix, x), dim=1))
        return normed

    def _round(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, cos, sin)
        return x


def build(
    config: GPTConfig,
    seed: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    checkpoint_rounds: bool = False,
) -> LoopedGPT:
    """Return the model with its initial values of `seed`."""
    with torch.device(device):
        model = LoopedGPT(config, checkpoint_rounds).to(dtype)
    initialize(model, config, seed)
    return model


def _norm(shape: Backbone) -> RMSNorm:
    return RMSNorm(shape.hidden_size, shape.norm_epsilon, shape.norm_gains)
