"""Shape and initialisation of the looped GPT: every open point of the paper is a field here.

Imports no torch: planning reads it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from deeploop.scaling import (
    ALPHA_CONSTANT,
    BETA_CONSTANT,
    ResidualScale,
    alpha,
    beta,
    unrolled_depth,
)
from deeploop.stage import Section

BetaTargets = Literal["deepnorm", "deepnorm_no_gate", "output"]


def padded(width: int, multiple: int = 8) -> int:
    """Return `width` rounded up: GPUs want the rows of a matrix aligned to 16 bytes."""
    return -(-width // multiple) * multiple


class Scaling(Section):
    """Residual scaling alpha = (c*N)^p_alpha, beta = (d*N)^-p_beta, N = layers * loops (Eq. 4)."""

    alpha_exponent: float = Field(ge=0, le=2)
    """p of alpha; 0 is the base, 1/4 DeepNorm, 1/2 DeepLoop."""
    beta_exponent: float = Field(ge=0, le=2)
    """p of beta; the paper uses one p for both."""
    alpha_constant: float = Field(default=ALPHA_CONSTANT, gt=0)
    """c."""
    beta_constant: float = Field(default=BETA_CONSTANT, gt=0)
    """d."""


class Backbone(Section):
    """The looped GPT before R and the scaling rule are chosen."""

    hidden_size: int = Field(gt=0)
    layers: int = Field(gt=0)
    """K, the number of physical blocks."""
    heads: int = Field(gt=0)
    context_length: int = Field(default=1024, gt=1)
    vocab_size: int = Field(default=50304, gt=1)
    """Rows of the tied embedding: GPT-2's 50,257 tokens padded to a multiple of 128; bytes: 256."""
    ffn_hidden: int | None = Field(default=None, gt=0)
    """SwiGLU width; floor(8*hidden_size/3) when absent. Stored padded to a multiple of 8."""
    qk_norm: bool = True
    """RMSNorm on queries and keys after RoPE. The paper does not say."""
    rope_base: float = Field(default=10000.0, gt=0)
    norm_epsilon: float = Field(default=1e-5, gt=0)
    norm_gains: bool = True
    """Learnable RMSNorm gains. The paper does not say."""
    norm_placement: Literal["post", "pre"] = "post"
    input_norm: bool = True
    """RMSNorm on the input embedding (the paper's section 5.1)."""
    final_norm: bool = True
    """A norm before the head. The paper does not say."""
    embedding_std: float = Field(default=0.02, gt=0)
    init_gain: float = Field(default=0.5, gt=0)
    """Matrices start from N(0, (init_gain/sqrt(hidden_size))^2), before beta."""
    beta_targets: BetaTargets = "deepnorm"
    """Matrices whose initial values beta scales: `deepnorm` = v, o, gate, up, down;
    `deepnorm_no_gate` leaves the gate; `output` = o, down. Never q, k, embeddings, head."""

    @property
    def ffn_width(self) -> int:
        """SwiGLU width before padding."""
        return self.ffn_hidden or 8 * self.hidden_size // 3

    @property
    def head_size(self) -> int:
        """Channels of an attention head."""
        return self.hidden_size // self.heads

    @model_validator(mode="after")
    def _heads_divide(self) -> Backbone:
        if self.hidden_size % self.heads or (self.hidden_size // self.heads) % 2:
            raise ValueError("heads must divide hidden_size into an even number of channels a head")
        return self


class GPTConfig(Section):
    """A backbone, its number of loops and its residual scaling: one architecture of Table 1."""

    backbone: Backbone
    loops: int = Field(gt=0)
    """R, how often the K blocks are applied."""
    scaling: Scaling

    @property
    def residual_scale(self) -> ResidualScale:
        """What the rule gives at this depth."""
        depth, rule = unrolled_depth(self.backbone.layers, self.loops), self.scaling
        return ResidualScale(
            alpha(depth, rule.alpha_exponent, rule.alpha_constant),
            beta(depth, rule.beta_exponent, rule.beta_constant),
        )
