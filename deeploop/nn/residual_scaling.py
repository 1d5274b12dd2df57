"""The scaling rule for other people's models: beta on the initial matrices that patterns name.

alpha stays with the model's owner, because it is part of the forward pass: x <- Norm(alpha * x +
f(x)), or equally, the norm being blind to scale, x <- Norm(x + f(x) / alpha).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from deeploop.errors import UserError
from deeploop.scaling import ResidualScale, residual_scale


@dataclass(frozen=True)
class Part:
    """Some of the equal parts of fused matrices, e.g. the values in a matrix of q, k and v."""

    pattern: str
    """Parameter names, with `*`, `?` and `[...]` as in file names."""
    take: tuple[int, ...]
    """Which parts, from 0."""
    of: int
    """How many parts lie side by side."""
    dim: int = 0
    """Where they lie side by side: 0 for [out, in] (`nn.Linear`), 1 for [in, out]."""


@dataclass(frozen=True)
class ScaledMatrix:
    """A matrix, or part of one, whose initial values were multiplied by beta."""

    name: str
    """The parameter's name in the model."""
    pattern: str
    """What chose it."""
    rows: tuple[int, int]
    """First and one past the last."""
    columns: tuple[int, int]

    def of(self, parameter: Tensor) -> Tensor:
        """Return these rows and columns of the parameter, as a view."""
        return parameter[slice(*self.rows), slice(*self.columns)]

    def overlaps(self, other: ScaledMatrix) -> bool:
        """Say whether both hold one and the same entry of rows and columns."""
        sides = ((self.rows, other.rows), (self.columns, other.columns))
        return all(a[0] < b[1] and b[0] < a[1] for a, b in sides)


@dataclass(frozen=True)
class AppliedScaling:
    """What `apply_residual_scaling` did, and the alpha that the forward pass now needs."""

    scale: ResidualScale
    blocks: int
    loops: int
    matrices: tuple[ScaledMatrix, ...]

    @property
    def alpha(self) -> float:
        """Weight of the stream before each norm."""
        return self.scale.alpha

    @property
    def beta(self) -> float:
        """What the initial values were multiplied by."""
        return self.scale.beta


def apply_residual_scaling(
    model: nn.Module,
    rule: str | float,
    *,
    blocks: int,
    loops: int,
    matrices: Sequence[str | Part],
) -> AppliedScaling:
    """Multiply the initial values of a Post-LN model's residual-branch matrices by beta (Eq. 5).

    Call it once, on a freshly initialised model, and give the returned `alpha` to the forward
    pass. The paper's choice of matrices is the value and output projections of attention and the
    feed-forward matrices; queries and keys stay as they are.

    Args:
        model: any model; changed in place, or not at all where this raises.
        rule: `base`, `deepnorm`, `deeploop`, or an exponent p of both alpha and beta.
        blocks: K, physical blocks.
        loops: R, how often they are applied.
        matrices: parameter names or patterns; a `Part` where matrices are fused.

    Returns:
        alpha, beta and a record of every matrix touched.

    Raises:
        UserError: an unknown rule, counts below 1, a pattern that matches nothing, a parameter
            that is no matrix or does not divide into the parts, a matrix that is matched twice
            (by two patterns, or under two names of shared weights).
    """
    scale = residual_scale(rule, blocks, loops)
    if isinstance(matrices, str):
        raise UserError(f"matrices is '{matrices}': give a list of patterns, ['{matrices}']")
    found = [entry for choice in matrices for entry in _matching(model, choice)]
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for index, entry in enumerate(found):
        for other in found[:index]:
            same = parameters[entry.name] is parameters[other.name]
            if same and entry.overlaps(other):
                raise UserError(_twice(entry, other))
    with torch.no_grad():
        for entry in found:
            entry.of(parameters[entry.name]).mul_(scale.beta)
    return AppliedScaling(scale, blocks, loops, tuple(found))


def _matching(model: nn.Module, choice: str | Part) -> list[ScaledMatrix]:
    part = choice if isinstance(choice, Part) else Part(choice, (0,), 1)
    found = [
        entry
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if fnmatchcase(name, part.pattern)
        for entry in _pieces(name, parameter, part)
    ]
    if not found:
        names = [name for name, p in model.named_parameters(remove_duplicate=False) if p.ndim == 2]
        known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise UserError(f"'{part.pattern}' matches no parameter; the model's matrices are {known}")
    return found


def _pieces(name: str, parameter: Tensor, part: Part) -> Iterator[ScaledMatrix]:
    shape = tuple(parameter.shape)
    if len(shape) != 2:
        raise UserError(
            f"'{part.pattern}' matches {name}, which is no matrix ({list(shape)}); "
            "name the weights alone, e.g. with `.weight` at the end"
        )
    if part.dim not in (0, 1) or not part.take or shape[part.dim] % part.of:
        raise UserError(f"{name} {list(shape)} has no {part.of} equal parts along {part.dim}")
    size = shape[part.dim] // part.of
    for index in part.take:
        if not 0 <= index < part.of:
            raise UserError(f"'{part.pattern}' has parts 0 to {part.of - 1}, not {index}")
        own = (index * size, (index + 1) * size)
        rows, columns = ((own, (0, shape[1])), ((0, shape[0]), own))[part.dim]
        yield ScaledMatrix(name, part.pattern, rows, columns)


def _twice(entry: ScaledMatrix, other: ScaledMatrix) -> str:
    names = entry.name if entry.name == other.name else f"{other.name}, shared as {entry.name},"
    return (
        f"{names} is matched twice, by '{other.pattern}' and '{entry.pattern}'; beta goes on once"
    )
