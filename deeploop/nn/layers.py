"""Layers shared by the looped GPT and HRM: RMSNorm, rotary attention, SwiGLU.

Matrices are [out, in], without bias, and left uninitialised: `deeploop.nn.init` fills them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deeploop.nn.cache import Past
from deeploop.nn.config import padded


def matrix(rows: int, columns: int) -> nn.Parameter:
    """Return an uninitialised matrix [rows, columns]."""
    return nn.Parameter(torch.empty(rows, columns))


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension, with a gain per channel where learnable."""

    def __init__(self, size: int, epsilon: float, gain: bool = True) -> None:
        super().__init__()
        self.size = (size,)
        self.epsilon = epsilon
        self.gain = nn.Parameter(torch.ones(size)) if gain else None

    def forward(self, x: Tensor) -> Tensor:
        """Return x over its root mean square, [..., size]."""
        return F.rms_norm(x, self.size, self.gain, self.epsilon)


def rotation(length: int, head_size: int, base: float) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of rotary embeddings, each float32 [length, head_size / 2].

    Computed in float64: in bfloat16 neighbouring positions would share an angle.
    """
    exponent = torch.arange(0, head_size, 2, dtype=torch.float64) / head_size
    angles = torch.outer(torch.arange(length, dtype=torch.float64), base**-exponent)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate channel c against channel c + head_size / 2 by its position's angle.

    Args:
        x: [batch, length, ..., head_size].
        cos: broadcastable to [length, ..., head_size / 2].
        sin: likewise.
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    """Multi-head attention with rotary positions and one fused matrix for q, k and v."""

    def __init__(
        self,
        hidden_size: int,
        heads: int,
        causal: bool = True,
        qk_norm_epsilon: float | None = None,
        qk_norm_gain: bool = True,
    ) -> None:
        """Make the layer; with `qk_norm_epsilon`, queries and keys are normalised after RoPE."""
        super().__init__()
        self.heads, self.head_size, self.causal = heads, hidden_size // heads, causal
        self.qkv = matrix(3 * hidden_size, hidden_size)
        self.o = matrix(hidden_size, hidden_size)
        self.q_norm: RMSNorm | None = None
        self.k_norm: RMSNorm | None = None
        if qk_norm_epsilon is not None:
            self.q_norm = RMSNorm(self.head_size, qk_norm_epsilon, qk_norm_gain)
            self.k_norm = RMSNorm(self.head_size, qk_norm_epsilon, qk_norm_gain)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, past: Past | None = None) -> Tensor:
        """Mix positions: [batch, length, hidden_size] -> the same shape.

        Args:
            x: the stream.
            cos: [length, 1, 1, head_size / 2], from `rotation`.
            sin: likewise.
            past: keys and values of earlier positions, to which these are added.
        """
        batch, length, size = x.shape
        qkv = F.linear(x, self.qkv).view(batch, length, 3, self.heads, self.head_size)
        qk, v = qkv.split((2, 1), dim=2)  # its gradient is one copy; an index's, a padded sum
        q, k = rotate(qk, cos, sin).unbind(2)  # both at once: half the kernels
        v = v.squeeze(2).contiguous()  # a view would keep queries and keys for the backward pass
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (part.to(v.dtype).transpose(1, 2) for part in (q, k, v))
        if past is None:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            k, v = past.cache.update(k, v, past.slot)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=past.mask)
        return F.linear(mixed.transpose(1, 2).reshape(batch, length, size), self.o)


class SwiGLU(nn.Module):
    """Gated feed-forward layer down(silu(gate(x)) * up(x)) with gate and up in one matrix.

    The stored width is a multiple of 8. Channels beyond `width` start at zero and stay there: a
    zero gate and up give zero gradients to down, and a zero down gives zero gradients back.
    """

    def __init__(self, hidden_size: int, width: int) -> None:
        super().__init__()
        stored = padded(width)
        self.gate_up = matrix(2 * stored, hidden_size)
        self.down = matrix(hidden_size, stored)

    def forward(self, x: Tensor) -> Tensor:
        """Map every position: [..., hidden_size] -> the same shape."""
        gate, up = F.linear(x, self.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.down)
