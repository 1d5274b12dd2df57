"""Visit alignment measured: kappa of gradients, kappa_R of Eq. 10, what the tied update does.

A batch costs one forward, one backward for the gradients, one for each probe of the sensitivities
and two forward derivatives. For kappa of the gradients alone give no probes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from deeploop.analysis.statistics import (
    Array,
    Estimate,
    cosines,
    defined_kappa,
    estimated,
    kappa,
    mean_pair_cosine,
    norms,
)
from deeploop.analysis.subjects import Module, SharedMatrix, Subject
from deeploop.analysis.visits import Aliases, Directions, visit_gradients, visited
from deeploop.draws import draw_seed
from deeploop.errors import UserError

Grams = Mapping[str, Tensor]
"""Matrix -> inner products of its visits, float64 [R, R]."""


@dataclass(frozen=True)
class Settings:
    """How precisely to measure."""

    probes: int = 2
    """Random directions of the output a batch, for the sensitivities; 0 leaves them out."""
    resamples: int = 1000
    """Bootstrap resamples of the batches."""
    seed: int = 0
    """Of probes and resampling."""


@dataclass(frozen=True)
class BatchVisits:
    """What one batch says."""

    loss: float
    gradients: Grams
    sensitivities: Grams | None
    """Estimates of the Frobenius products <U_r, U_s>."""
    common: Mapping[str, Array]
    """Module -> share of the stream's energy that is the same at all tokens, after each visit."""
    amplification: float | None
    """||change of F by the tied update|| / ||by untied updates||, first order."""


def measure(subject: Subject, batches: Iterable[Any], settings: Settings) -> dict[str, Any]:
    """Measure alignment on batches; returns plain JSON.

    Per module: `kappa` of the gradients with interval, per block and matrix, pair cosines and
    gradient norm of each visit (a collapsed run has kappa near 1 because one visit holds all the
    norm, not because visits differ), `kappa_defined` (Eq. 10), and `common`, the collapse
    indicator. `amplification` is the whole model's: by how much the tied update's first-order
    change of the output exceeds that of untied updates.

    Raises:
        UserError: no batch, or no module with a block that is visited twice.
    """
    found = [
        _batch(subject, batch, draw_seed(settings.seed, "batch", index), settings.probes)
        for index, batch in enumerate(batches)
    ]
    if not found:
        raise UserError("alignment needs at least one batch")
    modules = {module.name: _module(module, found, settings) for module in subject.modules}
    if all(entry["rounds"] < 2 for entry in modules.values()):
        raise UserError("alignment needs shared blocks: no block of this model is visited twice")
    return {
        "loss": _number(np.mean([one.loss for one in found])),
        "batches": len(found),
        "amplification": _amplification(found, settings),
        "modules": modules,
    }


def gram(vectors: Sequence[Tensor]) -> Tensor:
    """Return the inner products of R tensors of one shape, float64 [R, R]."""
    stacked = torch.stack([vector.flatten() for vector in vectors])
    return stacked.double() @ stacked.double().T


def common_share(stream: Tensor) -> float:
    """Return |mean of x|^2 / mean of |x|^2 over tokens of a stream [rows, length, size]; 0 to 1."""
    states = stream.flatten(0, 1).double()
    return float(states.mean(0).square().sum() / states.square().sum(-1).mean())


def _batch(subject: Subject, batch: Any, seed: int, probes: int) -> BatchVisits:
    with visited(subject.model, subject.blocks) as wrapped:
        outcome = subject.forward(batch)
        loss, output = outcome.loss(), outcome.output
        gradients = visit_gradients(loss, wrapped, keep_graph=probes > 0)
        sensitivities = None
        for probe in range(probes):
            direction = _direction(output, draw_seed(seed, probe))
            seen = visit_gradients((output * direction).sum(), wrapped, probe < probes - 1)
            more = _grams(subject, seen)
            before = sensitivities or dict.fromkeys(more, torch.zeros(()))
            sensitivities = {name: before[name] + value / probes for name, value in more.items()}
        common = {
            module.name: np.array(
                [common_share(stream) for stream in wrapped[module.blocks[-1]].outputs]
            )
            for module in subject.modules
        }
    amplification = _tied_over_untied(subject, batch, gradients) if probes else None
    return BatchVisits(
        float(loss.detach()), _grams(subject, gradients), sensitivities, common, amplification
    )


def _direction(output: Tensor, seed: int) -> Tensor:
    """Return a normal direction u: the mean of (u^T U_r)(u^T U_s)^T is <U_r, U_s>.

    So one backward pass serves every visit of every matrix, where Jacobian-vector products with
    random parameter directions, whose mean is the same, take one pass for each visit and matrix.
    Scaled so that the output's change is measured as a root mean square.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(output.shape, generator=generator, dtype=torch.float64)
    return drawn.to(output) / output.numel() ** 0.5


def _grams(subject: Subject, gradients: Mapping[str, Sequence[Aliases]]) -> dict[str, Tensor]:
    return {
        matrix.name: gram(
            [visit[matrix.parameter][matrix.rows] for visit in gradients[matrix.block]]
        ).cpu()
        for module in subject.modules
        for matrix in module.matrices
    }


def _tied_over_untied(
    subject: Subject, batch: Any, gradients: Mapping[str, Sequence[Aliases]]
) -> float:
    """Return how much more the tied update changes the output: Eq. 9 over its terms with r = t."""
    tied = output_change(subject, batch, tied_update(gradients))
    untied = output_change(subject, batch, gradients)
    return tied / untied if untied else float("nan")


def tied_update(gradients: Mapping[str, Sequence[Aliases]]) -> Directions:
    """Return the direction that gives every visit the sum of all visits' gradients."""
    summed: dict[str, list[Aliases]] = {}
    for block, visits in gradients.items():
        total = {name: torch.stack([visit[name] for visit in visits]).sum(0) for name in visits[0]}
        summed[block] = [total] * len(visits)
    return summed


def output_change(subject: Subject, batch: Any, directions: Directions) -> float:
    """Return the norm of the output's derivative along one direction a visit.

    A Jacobian-vector product: sum over visits and sublayers of U_r times the visit's direction.
    """
    with (
        sdpa_kernel(SDPBackend.MATH),  # the fused kernels have no forward derivative
        forward_ad.dual_level(),
        visited(subject.model, subject.blocks, directions),
    ):
        output = subject.forward(batch).output
        tangent = forward_ad.unpack_dual(output).tangent
    return float(tangent.detach().double().norm())


def _module(module: Module, found: Sequence[BatchVisits], settings: Settings) -> dict[str, Any]:
    gradients = _stacked([one.gradients for one in found], module.matrices)
    total = sum(gradients.values())
    assert isinstance(total, np.ndarray)
    pooled = total.mean(0)
    entry: dict[str, Any] = {
        "rounds": pooled.shape[-1],
        "kappa": _estimate(kappa, total, settings=settings),
        "pair_cosine": _estimate(mean_pair_cosine, total, settings=settings),
        "cosines": _plain(cosines(pooled)),
        "gradient_norms": _plain(norms(pooled)),
        "common": _plain(np.mean([one.common[module.name] for one in found], axis=0)),
        "blocks": {
            block: _number(kappa(sum(gradients[m.name].mean(0) for m in of_it)))
            for block, of_it in _by_block(module).items()
        },
        "matrices": {
            name: {
                "kappa": _number(kappa(value.mean(0))),
                "pair_cosine": _number(mean_pair_cosine(value.mean(0))),
                "gradient_norms": _plain(norms(value.mean(0))),
            }
            for name, value in gradients.items()
        },
    }
    seen = [one.sensitivities for one in found if one.sensitivities is not None]
    if seen:
        entry |= _defined(module, gradients, _stacked(seen, module.matrices), settings)
    return entry


def _defined(
    module: Module, gradients: Mapping[str, Array], seen: Mapping[str, Array], settings: Settings
) -> dict[str, Any]:
    """Return kappa_R of Eq. 10 with its parts, sublayer by sublayer."""
    u, g = (_sublayers(module, grams) for grams in (seen, gradients))
    return {
        "kappa_defined": _estimate(defined_kappa, u, g, settings=settings),
        "sensitivity_kappa": _estimate(lambda gram: kappa(gram.sum(-3)), u, settings=settings),
        "sensitivity_norms": _plain(norms(u.mean(0).sum(0))),
    }


def _sublayers(module: Module, grams: Mapping[str, Array]) -> Array:
    """Return [batches, sublayers, R, R]: a sublayer's products are the sums over its matrices."""
    sums: dict[str, Any] = defaultdict(float)
    for matrix in module.matrices:
        sums[matrix.sublayer] = sums[matrix.sublayer] + grams[matrix.name]
    return np.stack(list(sums.values()), axis=1)


def _by_block(module: Module) -> dict[str, list[SharedMatrix]]:
    return {
        block: [matrix for matrix in module.matrices if matrix.block == block]
        for block in module.blocks
    }


def _stacked(grams: Sequence[Grams], matrices: Sequence[SharedMatrix]) -> dict[str, Array]:
    """Return matrix -> [batches, R, R]."""
    return {
        matrix.name: np.stack([one[matrix.name].numpy() for one in grams]) for matrix in matrices
    }


def _amplification(found: Sequence[BatchVisits], settings: Settings) -> dict[str, Any] | None:
    ratios = [one.amplification for one in found if one.amplification is not None]
    if not ratios:
        return None
    return _estimate(lambda ratio: ratio, np.array(ratios), settings=settings)


def _estimate(statistic: Any, *samples: Array, settings: Settings) -> dict[str, Any]:
    found: Estimate = estimated(
        statistic, *samples, resamples=settings.resamples, seed=settings.seed
    )
    return {name: _number(value) for name, value in asdict(found).items()}


def _number(value: Any) -> float | None:
    """Return six digits: what follows them is rounding, and differs between machines."""
    return None if value is None or not np.isfinite(value) else float(f"{float(value):.6g}")


def _plain(values: Array) -> Any:
    if values.ndim == 0:
        return _number(values)
    return [_plain(value) for value in values]
