"""Residual scaling of looped post-norm Transformers: the paper's sections 2 to 4 as pure functions.

A sublayer is x <- Norm(alpha * x + f(x)); beta multiplies f's initial matrices. With K blocks
applied R times the unrolled depth is N = K * R, and the stream passes M = 2 * N sublayers.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def residual_scale(rule: str, blocks: int, loops: int) -> ResidualScale:
    """Return alpha and beta of a rule of `RULES` for K blocks applied R times.

    Raises:
        KeyError: when the rule has no such name.
    """
    exponent, depth = RULES[rule], unrolled_depth(blocks, loops)
    return ResidualScale(alpha(depth, exponent), beta(depth, exponent))


def untied_bound(visits: int, scale: ResidualScale) -> float:
    """Return M * (beta / alpha)^2, the first-order growth if every visit had its own weights."""
    return visits * scale.ratio**2


def tied_bound(visits: int, scale: ResidualScale, kappa: float) -> float:
    """Return M * kappa_R * (beta / alpha)^2, 0 <= kappa_R <= R (Eq. 10)."""
    return kappa * untied_bound(visits, scale)


def aligned_bound(blocks: int, loops: int, scale: ResidualScale) -> float:
    """Return M * R * (beta / alpha)^2: the visits of a shared block pull in one direction.

    At fixed K it grows like R for p = 1/4 and is 1 / (8 * K) for p = 1/2, whatever R.
    """
    return tied_bound(sublayer_visits(blocks, loops), scale, kappa=loops)


def threshold_exponent(alignment_growth: float) -> float:
    """Return the least p that bounds growth when kappa_R grows like R^gamma: (1 + gamma) / 4."""
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
