"""Residual scaling of looped post-norm Transformers: the paper's sections 2 to 4 as pure functions.

A sublayer is x <- Norm(alpha * x + f(x)); beta multiplies f's initial matrices. With K blocks
applied R times the unrolled depth is N = K * R, and the stream passes M = 2 * N sublayers.

Counts and exponents may be NumPy arrays wherever `Number` stands; they broadcast.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from deeploop.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Number = TypeVar("Number", float, "NDArray[np.float64]")

Module = Literal["H", "L"]
"""HRM's modules."""

ALPHA_CONSTANT = 2.0
"""c of the DeepNorm family (decoder only)."""
BETA_CONSTANT = 8.0
"""d of the DeepNorm family (decoder only)."""
RULES = {"base": 0.0, "deepnorm": 0.25, "deeploop": 0.5}
"""The paper's rules, by name, as exponents p."""


@dataclass(frozen=True)
class ResidualScale:
    """What a rule gives at one depth."""

    alpha: float
    """Multiplies the stream at run time."""
    beta: float
    """Multiplies initial residual-branch matrices; never used at run time."""

    @property
    def ratio(self) -> float:
        """The size of a branch beside its stream at the start: beta / alpha."""
        return self.beta / self.alpha


@dataclass(frozen=True)
class ScalingFamily:
    """A rule at every depth: alpha = (c * N)^p_alpha, beta = (d * N)^-p_beta (section 3.4).

    Raises:
        UserError: an exponent that is negative or not finite, or a constant that is not positive.
    """

    alpha_exponent: float
    beta_exponent: float
    alpha_constant: float = ALPHA_CONSTANT
    """c."""
    beta_constant: float = BETA_CONSTANT
    """d."""

    def __post_init__(self) -> None:
        for name in ("alpha_exponent", "beta_exponent"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name} is {getattr(self, name)}: an exponent is finite, from 0")
        for name in ("alpha_constant", "beta_constant"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is {getattr(self, name)}: c and d are positive")

    @classmethod
    def of(cls, rule: str | float) -> ScalingFamily:
        """Return a rule of `RULES`, or the one whose exponents are both the number given.

        Raises:
            UserError: when no rule has the name, or the number is negative.
        """
        if isinstance(rule, str) and rule not in RULES:
            close = difflib.get_close_matches(rule, RULES, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"there is {', '.join(RULES)}"
            raise UserError(f"no scaling rule '{rule}'; {hint} (or give an exponent p)")
        p = RULES[rule] if isinstance(rule, str) else rule
        return cls(p, p)

    def scale(self, depth: float) -> ResidualScale:
        """Return alpha and beta at unrolled depth N (Eq. 4)."""
        return ResidualScale(
            alpha(depth, self.alpha_exponent, self.alpha_constant),
            beta(depth, self.beta_exponent, self.beta_constant),
        )

    def ratio_squared(self, depth: Number) -> Number:
        """Return (beta / alpha)^2 at depth N; for one p, (c * d)^(-2p) * N^(-4p) (Eq. 13)."""
        result: Number = 1 / self._inverse_ratio_squared(depth)
        return result

    def untied_bound(self, blocks: Number, loops: Number) -> Number:
        """Return M * (beta / alpha)^2 (Eq. 7), the growth if every visit had its own weights."""
        return self.tied_bound(blocks, loops, blocks * 0.0 + 1.0)

    def tied_bound(self, blocks: Number, loops: Number, kappa: Number) -> Number:
        """Return M * kappa_R * (beta / alpha)^2 (Eq. 11).

        Raises:
            UserError: when K or R is below 1, or kappa is not between 0 and R.
        """
        check_counts(blocks=blocks, loops=loops)
        _check(kappa >= 0, "kappa", kappa, "it is at least 0")
        _check(kappa <= loops, "kappa", kappa, "it is at most R")
        depth = blocks * loops
        result: Number = 2 * depth * kappa / self._inverse_ratio_squared(depth)
        return result

    def aligned_bound(self, blocks: Number, loops: Number) -> Number:
        """Return M * R * (beta / alpha)^2 (Eq. 14): the visits of a block pull in one direction.

        At fixed K it grows like R for p = 1/4 and is 1 / (8 * K) for p = 1/2, whatever R.
        """
        return self.tied_bound(blocks, loops, loops)

    def _inverse_ratio_squared(self, depth: Any) -> Any:
        # Not from alpha and beta: what both exponents share is one power of c * d * N^2, which is
        # exact where 2p is whole or the product a square.
        shared = min(self.alpha_exponent, self.beta_exponent)
        both = (self.alpha_constant * self.beta_constant * depth * depth) ** (2 * shared)
        alone = (self.alpha_constant * depth) ** (2 * (self.alpha_exponent - shared))
        rest = (self.beta_constant * depth) ** (2 * (self.beta_exponent - shared))
        return both * alone * rest


def unrolled_depth(blocks: int, loops: int) -> int:
    """Return N = K * R."""
    return blocks * loops


def sublayer_visits(blocks: int, loops: int) -> int:
    """Return M = 2 * N: attention and feed-forward of every visit of every block."""
    return 2 * unrolled_depth(blocks, loops)


def alpha(depth: float, exponent: float, constant: float = ALPHA_CONSTANT) -> float:
    """Return alpha = (c * N)^p (Eq. 4)."""
    return float((constant * depth) ** exponent)


def beta(depth: float, exponent: float, constant: float = BETA_CONSTANT) -> float:
    """Return beta = (d * N)^(-p) (Eq. 4)."""
    return float((constant * depth) ** -exponent)


def residual_scale(rule: str | float, blocks: int, loops: int) -> ResidualScale:
    """Return alpha and beta of a rule of `RULES`, or of an exponent, for K blocks applied R times.

    Raises:
        UserError: an unknown rule, a negative exponent, no block, or no loop.
    """
    check_counts(blocks=blocks, loops=loops)
    return ScalingFamily.of(rule).scale(unrolled_depth(blocks, loops))


def threshold_exponent(alignment_growth: float) -> float:
    """Return the least p that bounds growth when kappa_R grows like R^gamma: (1 + gamma) / 4.

    Raises:
        UserError: when gamma is not between 0 and 1.
    """
    _check(0 <= alignment_growth <= 1, "gamma", alignment_growth, "kappa_R is between 1 and R")
    return (1 + alignment_growth) / 4


def hrm_visits(h_blocks: int, l_blocks: int, cycles: int, l_iterations: int) -> int:
    """Return HRM's M = 2 * C * (K_H + C_L * K_L): sublayer visits of one forward (section 4)."""
    return cycles * hrm_gradient_visits(h_blocks, l_blocks, l_iterations)


def hrm_gradient_visits(h_blocks: int, l_blocks: int, l_iterations: int) -> int:
    """Return HRM's M_g = 2 * (K_H + C_L * K_L): visits of the last outer cycle (section 4)."""
    return 2 * (h_blocks + l_iterations * l_blocks)


def hrm_gradient_depth(h_blocks: int, l_blocks: int, l_iterations: int) -> int:
    """Return HRM's N_g = M_g / 2, the depth that alpha and beta are computed with (section 4)."""
    return hrm_gradient_visits(h_blocks, l_blocks, l_iterations) // 2


@dataclass(frozen=True)
class HierarchicalLoops:
    """Counts and bounds of a hierarchical recurrent reasoner under one-step gradients (section 4).

    Raises:
        UserError: when a count is below 1.
    """

    h_blocks: int
    """K_H."""
    l_blocks: int
    """K_L."""
    l_iterations: int
    """C_L, visits of L in an outer cycle."""
    cycles: int = 1
    """C, outer cycles; only the forward count depends on it."""

    def __post_init__(self) -> None:
        check_counts(**vars(self))

    @property
    def visits(self) -> int:
        """M, sublayer visits of a forward (Eq. 15)."""
        return hrm_visits(self.h_blocks, self.l_blocks, self.cycles, self.l_iterations)

    @property
    def gradient_visits(self) -> int:
        """M_g, visits that carry gradient (Eq. 16)."""
        return hrm_gradient_visits(self.h_blocks, self.l_blocks, self.l_iterations)

    @property
    def gradient_depth(self) -> int:
        """N_g = M_g / 2."""
        return hrm_gradient_depth(self.h_blocks, self.l_blocks, self.l_iterations)

    @property
    def rounds(self) -> dict[Module, int]:
        """R_g of each module: how often the gradient sees a block of it (Eq. 17)."""
        return {"H": 1, "L": self.l_iterations}

    @property
    def sublayers(self) -> dict[Module, int]:
        """J of each module: physical residual sublayers."""
        return {"H": 2 * self.h_blocks, "L": 2 * self.l_blocks}

    def kappa_bar(self, kappa_l: float) -> float:
        """Return the aggregate (J_H + J_L * C_L * kappa_L) / M_g (Eq. 19).

        Raises:
            UserError: when kappa_L is not between 0 and C_L.
        """
        _check(0 <= kappa_l <= self.l_iterations, "kappa_L", kappa_l, "it lies in [0, C_L]")
        read = self.sublayers["L"] * self.l_iterations * kappa_l
        return (self.sublayers["H"] + read) / self.gradient_visits

    @property
    def kappa_bar_interval(self) -> tuple[float, float]:
        """Least and largest aggregate: J_H / M_g and 1 + J_L * C_L * (C_L - 1) / M_g."""
        surplus = self.sublayers["L"] * self.l_iterations * (self.l_iterations - 1)
        least = self.sublayers["H"] / self.gradient_visits
        return least, (self.gradient_visits + surplus) / self.gradient_visits

    def bound(
        self, scaling: Mapping[Module, ScalingFamily], kappa: Mapping[Module, float]
    ) -> float:
        """Return the two-module bound, each module with its own scaling at N_g (Eq. 18).

        Raises:
            UserError: when a kappa is not between 0 and its module's R_g.
        """
        total = 0.0
        for module, rounds in self.rounds.items():
            aligned = kappa[module]
            _check(0 <= aligned <= rounds, f"kappa_{module}", aligned, f"it lies in [0, {rounds}]")
            ratio = scaling[module].ratio_squared(float(self.gradient_depth))
            total += self.sublayers[module] * rounds * aligned * ratio
        return total


def hrm_threshold_exponent(
    alignment_growth: float, grown: Literal["blocks", "l_iterations"] = "l_iterations"
) -> float:
    """Return the least p that bounds HRM's Eq. 20 when kappa_L grows like C_L^gamma (section 4.3).

    Args:
        alignment_growth: gamma; 0 for decorrelated inner iterations, 1 for aligned ones.
        grown: how M_g grows: more blocks at fixed C_L (the threshold stays 1/4), or more inner
            iterations at fixed blocks (1/4 to 1/2, as for one loop).

    Raises:
        UserError: when gamma is not between 0 and 1.
    """
    return threshold_exponent(alignment_growth if grown == "l_iterations" else 0.0)


def check_counts(**counts: Any) -> None:
    """Refuse counts below 1, by name.

    Raises:
        UserError: naming the first.
    """
    for name, count in counts.items():
        _check(count >= 1, name, count, "it is at least 1")


def _check(holds: Any, name: str, value: Any, rule: str) -> None:
    """Raise unless `holds`, a truth value or an array of them, is true throughout."""
    everywhere = holds.all() if hasattr(holds, "all") else holds
    if not everywhere:
        raise UserError(f"{name} is {value}: {rule}")
