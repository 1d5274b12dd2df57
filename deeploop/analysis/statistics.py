"""kappa, cosines and norms from the inner products of visits, with intervals over batches.

Everything that alignment asks of R vectors is in their Gram matrix [R, R]; pooled over batches,
a resampling of batches is a reweighting of Gram matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeploop.draws import uniform

Array = NDArray[np.float64]

COVERAGE = 0.95
"""Of the bootstrap intervals."""


@dataclass(frozen=True)
class Estimate:
    """A number with its bootstrap interval over batches."""

    value: float | None
    """None where it is not defined, e.g. no gradient at all."""
    low: float | None
    high: float | None


def kappa(gram: Array) -> Array:
    """Return ||sum_r g_r||^2 / sum_r ||g_r||^2 of Gram matrices [..., R, R]; in [0, R].

    R for identical visits, 1 for orthogonal ones, NaN where every visit is zero. For gradient
    descent it is the first-order loss decrease of the tied update over that of untied updates.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Array = gram.sum((-2, -1)) / np.trace(gram, axis1=-2, axis2=-1)
    return ratio


def norms(gram: Array) -> Array:
    """Return the norm of each visit, [..., R]."""
    return np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1).clip(min=0))


def cosines(gram: Array) -> Array:
    """Return the cosine of every pair of visits, [..., R, R]; NaN beside a zero visit."""
    length = norms(gram)
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Array = gram / (length[..., :, None] * length[..., None, :])
    return result


def mean_pair_cosine(gram: Array) -> Array:
    """Return the mean cosine of different visits, [...]; NaN for one visit."""
    count = gram.shape[-1]
    if count < 2:
        return np.full(gram.shape[:-2], np.nan)
    found = cosines(gram)
    pairs = found.sum((-2, -1)) - np.trace(found, axis1=-2, axis2=-1)
    return pairs / (count * (count - 1))


def defined_kappa(sensitivity: Array, gradient: Array) -> Array:
    """Return kappa_R as the paper defines it (Eq. 10), in [0, R].

    C_U * beta / alpha and C_G * beta / alpha are the smallest that Assumption 1 allows: the largest
    norm of any visit of any sublayer.

    Args:
        sensitivity: Gram matrices of U_r of each sublayer (Frobenius), [..., sublayers, R, R].
        gradient: Gram matrices of G_r likewise.
    """
    rounds = gradient.shape[-1]
    shares = []
    for gram in (sensitivity, gradient):
        summed = np.sqrt(gram.sum((-2, -1)).clip(min=0))
        with np.errstate(invalid="ignore", divide="ignore"):
            shares.append(summed / norms(gram).max((-2, -1))[..., None])
    return (shares[0] * shares[1] / rounds).max(-1)


def estimated(
    statistic: Callable[..., Array], *samples: Array, resamples: int, seed: int
) -> Estimate:
    """Return a statistic of pooled samples with its percentile bootstrap interval over batches.

    Args:
        statistic: means over batches, each [..., *rest], -> [...].
        samples: arrays [batches, *rest].
        resamples: bootstrap resamples.
        seed: of the resampling.
    """
    batches = len(samples[0])
    value = float(statistic(*(sample.mean(0) for sample in samples)))
    if not np.isfinite(value):
        return Estimate(None, None, None)
    drawn = uniform(seed, "bootstrap", 0, resamples * batches).reshape(resamples, batches)
    chosen = (drawn * batches).astype(np.int64)
    weights = np.stack([np.bincount(row, minlength=batches) for row in chosen]) / batches
    found = statistic(*(np.tensordot(weights, sample, axes=1) for sample in samples))
    edges = np.nanquantile(found, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return Estimate(value, float(edges[0]), float(edges[1]))
