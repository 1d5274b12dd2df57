"""The model of `deeploop.nn.gpt` as one writes it first, and its training step: what we compare to.

Separate q, k, v, gate and up, rotate-half RoPE, full logits, torch's AdamW as it comes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deeploop.nn.config import Backbone, GPTConfig


class PlainAttention(nn.Module):
    def __init__(self, shape: Backbone) -> None:
        super().__init__()
        size, self.heads = shape.hidden_size, shape.heads
        self.q, self.k, self.v, self.o = (nn.Linear(size, size, bias=False) for _ in range(4))
        self.q_norm = nn.RMSNorm(shape.head_size, shape.norm_epsilon)
        self.k_norm = nn.RMSNorm(shape.head_size, shape.norm_epsilon)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, size = x.shape
        parts = (layer(x).view(batch, length, self.heads, -1) for layer in (self.q, self.k, self.v))
        q, k, v = (part.transpose(1, 2) for part in parts)
        q, k = self.q_norm(rotated(q, cos, sin)), self.k_norm(rotated(k, cos, sin))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(batch, length, size))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class PlainBlock(nn.Module):
    def __init__(self, shape: Backbone, alpha: float) -> None:
        super().__init__()
        self.alpha, size, width = alpha, shape.hidden_size, shape.ffn_width
        self.attention = PlainAttention(shape)
        self.gate, self.up = (nn.Linear(size, width, bias=False) for _ in range(2))
        self.down = nn.Linear(width, size, bias=False)
        self.attention_norm = nn.RMSNorm(size, shape.norm_epsilon)
        self.ffn_norm = nn.RMSNorm(size, shape.norm_epsilon)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = self.attention_norm(self.alpha * x + self.attention(x, cos, sin))
        ffn = self.down(F.silu(self.gate(x)) * self.up(x))
        return self.ffn_norm(self.alpha * x + ffn)


class PlainGPT(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        shape, self.loops = config.backbone, config.loops
        self.embedding = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.input_norm = nn.RMSNorm(shape.hidden_size, shape.norm_epsilon)
        alpha = config.residual_scale.alpha
        self.blocks = nn.ModuleList(PlainBlock(shape, alpha) for _ in range(shape.layers))
        self.final_norm = nn.RMSNorm(shape.hidden_size, shape.norm_epsilon)
        self.head = nn.Linear(shape.hidden_size, shape.vocab_size, bias=False)
        self.head.weight = self.embedding.weight
        frequencies = shape.rope_base ** (-torch.arange(0, shape.head_size, 2) / shape.head_size)
        angles = torch.outer(torch.arange(shape.context_length), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.input_norm(self.embedding(tokens))
        for _ in range(self.loops):
            for block in self.blocks:
                x = block(x, self.cos, self.sin)
        logits = self.head(self.final_norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    gains = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": gains, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor) -> None:
    model(batch[:, :-1], batch[:, 1:]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
