"""All that is checked of the theory: the lemma's remainder, and growth with R in four settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from deeploop.analysis.random_stacks import expansion_remainders, perturbation, slope

ALPHAS = tuple(2.0**power for power in range(1, 11))
EXPONENTS = (0.25, 0.5)


@dataclass(frozen=True)
class Growth:
    """How one tied update's effect grows with R, in one setting. Tuples are parallel to `loops`."""

    p: float
    decorrelated: bool
    predicted: float
    """Power of R that the bound grows with at fixed K: 1 + gamma - 4 p."""
    loops: tuple[int, ...]
    change: tuple[float, ...]
    """Norm of the output's change, mean over stacks."""
    bound: tuple[float, ...]
    """Eq. 11 with measured kappa_R and constants, mean over stacks."""
    kappa: tuple[float, ...]
    """kappa_R of Eq. 10, mean over stacks."""
    tightness: float
    """Largest change over its own bound, any stack, any R; the proposition says at most 1."""

    @property
    def power(self) -> float:
        """Power of R that the change grows with."""
        return slope(self.loops, self.change)


@dataclass(frozen=True)
class Check:
    """Everything that was computed."""

    blocks: int
    seeds: int
    alphas: tuple[float, ...]
    remainders: tuple[float, ...]
    """Root mean square of what Lemma 1 leaves out at each alpha, mean over draws."""
    growths: tuple[Growth, ...]

    @property
    def remainder_power(self) -> float:
        """Power of alpha with which the remainder falls, over the larger half of the alphas."""
        half = len(self.alphas) // 2
        return slope(self.alphas[half:], self.remainders[half:])


def check(blocks: int, hidden_size: int, loops: Sequence[int], seeds: int) -> Check:
    """Compute everything; some seconds at the defaults of the stage."""
    draws = [expansion_remainders(ALPHAS, hidden_size, seed) for seed in range(seeds)]
    growths = tuple(
        _growth(p, decorrelated, blocks, hidden_size, loops, seeds)
        for decorrelated in (False, True)
        for p in EXPONENTS
    )
    return Check(blocks, seeds, ALPHAS, _means(draws), growths)


def _growth(
    p: float, decorrelated: bool, blocks: int, size: int, loops: Sequence[int], seeds: int
) -> Growth:
    stacks = [
        [perturbation(p, blocks, rounds, size, decorrelated, seed) for rounds in loops]
        for seed in range(seeds)
    ]

    def means(name: str) -> tuple[float, ...]:
        return _means([[found[name] for found in stack] for stack in stacks])

    return Growth(
        p=p,
        decorrelated=decorrelated,
        predicted=1 + (not decorrelated) - 4 * p,
        loops=tuple(loops),
        change=means("change"),
        bound=means("bound"),
        kappa=means("kappa_defined"),
        tightness=max(found["change"] / found["bound"] for stack in stacks for found in stack),
    )


def _means(draws: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(fmean(values) for values in zip(*draws, strict=True))
