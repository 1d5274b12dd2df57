"""Shape, halting and residual scaling of the Hierarchical Reasoning Model (the paper's section 4).

Imports no torch: planning reads it. The defaults are the published ARC configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from deeploop.errors import UserError
from deeploop.nn.config import BetaTargets
from deeploop.scaling import (
    ALPHA_CONSTANT,
    BETA_CONSTANT,
    RULES,
    Module,
    alpha,
    beta,
    hrm_gradient_depth,
)
from deeploop.stage import Section

Precision = Literal["bf16", "fp32", "fp64"]

FFN_MULTIPLE = 256
RULE_NAMES = {"vanilla": "base", "deepnorm": "deepnorm", "deeploop": "deeploop"}
"""HRM's rules, and what `deeploop.scaling` calls them."""

IGNORED_KEYS = frozenset({"batch_size", "causal"})
"""Keys of a published configuration that its model never reads, or that are not the model's."""

PUBLISHED_NAMES = {
    "seq_len": "sequence_length",
    "vocab_size": "vocab_size",
    "puzzle_emb_ndim": "puzzle_embedding_size",
    "num_puzzle_identifiers": "identifiers",
    "H_cycles": "h_cycles",
    "L_cycles": "l_cycles",
    "H_layers": "h_layers",
    "L_layers": "l_layers",
    "hidden_size": "hidden_size",
    "expansion": "expansion",
    "num_heads": "heads",
    "pos_encodings": "positions",
    "rms_norm_eps": "norm_epsilon",
    "rope_theta": "rope_base",
    "halt_max_steps": "halt_max_steps",
    "halt_exploration_prob": "halt_exploration",
    "forward_dtype": "precision",
    "loss_type": "loss",
}
"""A published configuration's keys, and ours."""

PUBLISHED_VALUES = {
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "stablemax_cross_entropy": "stablemax",
    "softmax_cross_entropy": "softmax",
}


class ModuleExponents(Section):
    """Exponents of one module under `rule: custom`."""

    alpha: float = Field(ge=0, le=2)
    beta: float = Field(ge=0, le=2)


class HRMScaling(Section):
    """Residual scaling alpha = (2 N_g)^p, beta = (8 N_g)^-p, a module at a time (Eqs. 16 to 21)."""

    rule: Literal["vanilla", "deepnorm", "deeploop", "custom"] = "vanilla"
    """p = 0, 1/4, 1/2, or `p` (or the exponents of each module) as given."""
    p: float | None = Field(default=None, ge=0, le=2)
    """With `custom`: the exponent of both modules."""
    h: ModuleExponents | None = None
    """With `custom`: the exponents of H instead of `p`."""
    l: ModuleExponents | None = None  # noqa: E741 - the paper's name
    """With `custom`: the exponents of L instead of `p`."""
    n_g: float | None = Field(default=None, gt=0)
    """Gradient-visible block-equivalent depth; K_H + C_L K_L (the paper's Eq. 16) when absent."""
    alpha_constant: float = Field(default=ALPHA_CONSTANT, gt=0)
    """c."""
    beta_constant: float = Field(default=BETA_CONSTANT, gt=0)
    """d."""
    beta_targets: BetaTargets = "deepnorm"
    """Matrices whose initial values beta scales, as for the looped GPT."""

    @model_validator(mode="after")
    def _exponents_belong_to_custom(self) -> HRMScaling:
        given = self.p is not None or self.h is not None or self.l is not None
        if given and self.rule != "custom":
            raise ValueError(f"rule {self.rule} fixes the exponents: leave out p, h and l")
        if self.rule == "custom" and self.p is None and (self.h is None or self.l is None):
            raise ValueError("rule custom needs p, or both h and l")
        return self

    def exponents(self, module: Module) -> ModuleExponents:
        """Return the exponents of one module."""
        own = self.h if module == "H" else self.l
        if own is not None:
            return own
        p = self.p if self.rule == "custom" else RULES[RULE_NAMES[self.rule]]
        assert p is not None
        return ModuleExponents(alpha=p, beta=p)


class HRMArchitecture(Section):
    """HRM without the sizes that a data set decides: two modules of Post-LN blocks."""

    puzzle_embedding_size: int = Field(default=512, ge=0)
    """Numbers a puzzle; 0 for none. Padded with zeros to whole positions of hidden_size."""
    hidden_size: int = Field(default=512, gt=0)
    heads: int = Field(default=8, gt=0)
    expansion: float = Field(default=4.0, gt=0)
    """SwiGLU width is 2/3 of expansion * hidden_size, rounded up to a multiple of 256."""
    h_cycles: int = Field(default=2, gt=0)
    """C, outer cycles of one segment."""
    l_cycles: int = Field(default=2, gt=0)
    """C_L, visits of L in each outer cycle."""
    h_layers: int = Field(default=4, gt=0)
    """K_H."""
    l_layers: int = Field(default=4, gt=0)
    """K_L."""
    positions: Literal["rope", "learned"] = "rope"
    rope_base: float = Field(default=10000.0, gt=0)
    norm_epsilon: float = Field(default=1e-5, gt=0)
    entry_norm: bool = False
    """RMSNorm on the input embedding at the loop entry (the paper's section 4.4)."""
    halt_max_steps: int = Field(default=16, gt=0)
    """Segments a puzzle is worked on at most; prediction always takes all of them."""
    halt_exploration: float = Field(default=0.1, ge=0, le=1)
    """Probability that a row must go on for a random number of segments, in training."""
    gradient: Literal["last_step", "last_cycle"] = "last_step"
    """What the backward pass sees: the last visit of L and of H (the published code), or all C_L
    visits of L in the last outer cycle and the visit of H (the paper's text)."""
    loss: Literal["stablemax", "softmax"] = "stablemax"
    precision: Precision = "bf16"
    """Of the forward pass; weights are fp32 (fp64: all)."""
    scaling: HRMScaling = HRMScaling()

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.heads or (self.hidden_size // self.heads) % 2:
            raise ValueError("heads must divide hidden_size into an even number of channels a head")
        return self

    @property
    def ffn_hidden(self) -> int:
        """Width of the SwiGLU."""
        return _rounded_up(round(self.expansion * self.hidden_size * 2 / 3), FFN_MULTIPLE)

    @property
    def puzzle_positions(self) -> int:
        """Positions that the puzzle embedding takes before the grid's tokens."""
        return _rounded_up(self.puzzle_embedding_size, self.hidden_size) // self.hidden_size

    @property
    def visible_l_visits(self) -> int:
        """Visits of L that carry gradient."""
        return 1 if self.gradient == "last_step" else self.l_cycles

    @property
    def gradient_depth(self) -> float:
        """N_g, in blocks: the paper's count unless `scaling.n_g` says otherwise."""
        counted = hrm_gradient_depth(self.h_layers, self.l_layers, self.l_cycles)
        return self.scaling.n_g or counted

    def alpha(self, module: Module) -> float:
        """Return the weight of the residual stream before each norm; exactly 1 for p = 0."""
        exponent = self.scaling.exponents(module).alpha
        return alpha(self.gradient_depth, exponent, self.scaling.alpha_constant)

    def beta(self, module: Module) -> float:
        """Return the initialisation gain of the residual branches; exactly 1 for p = 0."""
        exponent = self.scaling.exponents(module).beta
        return beta(self.gradient_depth, exponent, self.scaling.beta_constant)


class HRMConfig(HRMArchitecture):
    """One HRM: C cycles a segment, each of C_L visits of L and one of H."""

    sequence_length: int = Field(gt=0)
    """Tokens of a grid; 900 for ARC (30 x 30). Puzzle positions come on top."""
    vocab_size: int = Field(gt=0)
    identifiers: int = Field(default=1, gt=0)
    """Rows of the puzzle embedding, the blank identifier 0 included."""


def from_published(published: Mapping[str, Any]) -> HRMConfig:
    """Translate a configuration of the published code, with that code's defaults.

    Raises:
        UserError: on a key or a value that the published model does not have.
    """
    unknown = sorted(set(published) - set(PUBLISHED_NAMES) - IGNORED_KEYS)
    if unknown:
        known = ", ".join(sorted(PUBLISHED_NAMES))
        raise UserError(f"HRM configuration: unknown key {', '.join(unknown)}; known: {known}")
    values = {
        ours: _translated(published[theirs])
        for theirs, ours in PUBLISHED_NAMES.items()
        if theirs in published
    }
    values.setdefault("puzzle_embedding_size", 0)
    try:
        return HRMConfig(**values)
    except ValidationError as error:
        raise UserError(f"HRM configuration: {first_fault(error)}") from None


def _translated(value: Any) -> Any:
    return PUBLISHED_VALUES.get(value, value) if isinstance(value, str) else value


def first_fault(error: ValidationError) -> str:
    """Return the first thing that pydantic found wrong, with its place, in one line."""
    fault = error.errors()[0]
    return ": ".join([*map(str, fault["loc"]), fault["msg"]])


def _rounded_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
