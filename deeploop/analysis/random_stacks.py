"""The propositions on random looped stacks: how far one tied update moves the output.

The stack is the setting of the proofs and no more: K blocks of two sublayers, x <- R(alpha * x +
f(x)) with RMSNorm and f(x) = B tanh(A x), A and B scaled by beta, so that a visit's sensitivity and
gradient are of the order of beta / alpha (Assumption 1). The loss is a random projection of the
output. Visits are aligned as they come, or decorrelated: a fixed random rotation of the stream
after every round shows a shared block another direction each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deeploop.analysis.alignment import gram, output_change, tied_update
from deeploop.analysis.statistics import defined_kappa, kappa, norms
from deeploop.analysis.subjects import Module, Outcome, SharedMatrix, Subject
from deeploop.analysis.visits import Aliases, visit_gradients, visited
from deeploop.draws import draw_seed
from deeploop.scaling import ScalingFamily

TOKENS = 4
"""Of the stack's input."""


class Sublayer(nn.Module):
    """x <- R(alpha * x + B tanh(A x))."""

    def __init__(self, alpha: float, a: Tensor, b: Tensor) -> None:
        super().__init__()
        self.alpha, self.a, self.b = alpha, nn.Parameter(a), nn.Parameter(b)

    def forward(self, x: Tensor) -> Tensor:
        """Pass the stream [tokens, size]."""
        branch = torch.tanh(x @ self.a.T) @ self.b.T
        return F.rms_norm(self.alpha * x + branch, x.shape[-1:])


class RandomStack(nn.Module):
    """2K sublayers, applied R times, rotated after each round."""

    def __init__(self, sublayers: list[Sublayer], rotations: Tensor) -> None:
        """Take the sublayers and [rounds, size, size] rotations."""
        super().__init__()
        self.sublayers, self.rotations = nn.ModuleList(sublayers), rotations

    def forward(self, x: Tensor) -> Tensor:
        """Pass the stream [tokens, size] through all rounds."""
        for rotation in self.rotations:
            for sublayer in self.sublayers:
                x = sublayer(x)
            x = x @ rotation.T
        return x


def perturbation(
    p: float, blocks: int, loops: int, size: int, decorrelated: bool, seed: int
) -> dict[str, float]:
    """Return one tied update's effect beside its bounds, for unit learning rate, first order.

    Returns:
        `change`, the norm of the output's change; `bound` and `aligned_bound`, Eq. 11 with the
        measured kappa_R and with kappa_R = R, both with the constants C_U and C_G measured;
        `kappa`, of the gradients; `kappa_defined`, of Eq. 10.
    """
    stack, x, direction = _drawn(p, blocks, loops, size, decorrelated, seed)
    subject = _subject(stack, direction)
    with visited(stack, subject.blocks) as wrapped:
        outcome = subject.forward(x)
        gradients = visit_gradients(outcome.loss(), wrapped, keep_graph=True)
        u = _exact_sensitivities(outcome.output, subject, wrapped)
    g = _grams(subject, gradients)
    change = output_change(subject, x, tied_update(gradients))
    defined = float(defined_kappa(u, g))
    # C_U and C_G times beta / alpha: the largest norm of any visit
    constants = float(norms(u).max() * norms(g).max())
    visits = 2 * blocks * loops
    return {
        "change": change,
        "bound": visits * defined * constants,
        "aligned_bound": visits * loops * constants,
        "kappa": float(kappa(g.sum(0))),
        "kappa_defined": defined,
    }


def expansion_remainders(alphas: Sequence[float], size: int, seed: int) -> list[float]:
    """Return the RMS of what Lemma 1 leaves out, R(alpha x + z) - x - (z - <x, z> x) / alpha."""
    draw = torch.Generator().manual_seed(draw_seed(seed, "lemma"))
    x, z = torch.randn(2, size, generator=draw, dtype=torch.float64)
    x, z = _unit(x), _unit(z)
    inner = (x * z).mean()
    found = []
    for alpha in alphas:
        remainder = _unit(alpha * x + z) - x - (z - inner * x) / alpha
        found.append(float(remainder.square().mean().sqrt()))
    return found


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the power of x with which y grows: the least-squares slope of the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _unit(x: Tensor) -> Tensor:
    return x / x.square().mean().sqrt()


def _drawn(
    p: float, blocks: int, loops: int, size: int, decorrelated: bool, seed: int
) -> tuple[RandomStack, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(draw_seed(seed, "stack"))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    scale = ScalingFamily.of(p).scale(blocks * loops)
    std = scale.beta / math.sqrt(size)
    sublayers = [
        Sublayer(scale.alpha, std * normal(size, size), std * normal(size, size))
        for _ in range(2 * blocks)
    ]
    x, direction = F.rms_norm(normal(TOKENS, size), (size,)), normal(TOKENS, size)
    identity = torch.eye(size, dtype=torch.float64).expand(loops, size, size)
    rotations = torch.linalg.qr(normal(loops, size, size)).Q if decorrelated else identity
    return RandomStack(sublayers, rotations), x, direction / direction.norm()


def _subject(stack: RandomStack, direction: Tensor) -> Subject:
    def forward(x: Tensor) -> Outcome:
        output = stack(x)
        return Outcome(lambda: (output * direction).sum(), output)

    names = tuple(f"sublayers.{index}" for index in range(len(stack.sublayers)))
    shared = tuple(
        SharedMatrix(f"{name}.{matrix}", name, matrix, slice(None))
        for name in names
        for matrix in ("a", "b")
    )
    return Subject(stack, (Module("loop", names, shared),), forward)


def _grams(subject: Subject, gradients: Any) -> np.ndarray:
    """Return [sublayers, R, R]."""

    def flat(visit: Aliases) -> Tensor:
        return torch.cat([part.flatten() for part in visit.values()])

    return np.stack([gram([flat(v) for v in gradients[name]]).numpy() for name in subject.blocks])


def _exact_sensitivities(output: Tensor, subject: Subject, wrapped: Any) -> np.ndarray:
    """Return the Gram matrices of U_r (Frobenius): one backward pass for each output entry."""
    entries = output.flatten()
    rows = (_grams(subject, visit_gradients(entry, wrapped, keep_graph=True)) for entry in entries)
    return np.sum(list(rows), axis=0)
