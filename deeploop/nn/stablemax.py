"""Token losses of HRM: cross-entropy over stablemax or softmax, one value a token."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED_LABEL = -100


def log_stablemax(logits: Tensor) -> Tensor:
    """Return log(s(x) / sum s(x)) over the last axis, s(x) = x + 1 for x >= 0, 1 / (1 - x) below.

    Both pieces of s are one expression here, so that neither can overflow where the other holds.
    """
    positive = F.relu(logits) + 1 / (1 - logits.clamp(max=0))
    return positive.log() - positive.sum(-1, keepdim=True).log()


def token_losses(logits: Tensor, labels: Tensor, loss: str) -> Tensor:
    """Return the cross-entropy of each token, 0 where the label is `IGNORED_LABEL`.

    Args:
        logits: `[..., tokens, vocabulary]`, any float type.
        labels: `[..., tokens]`, integers.
        loss: `stablemax` (computed in fp64, as published) or `softmax` (fp32).

    Returns:
        `[..., tokens]` in fp64 or fp32.
    """
    valid = labels != IGNORED_LABEL
    index = labels.where(valid, 0).long().unsqueeze(-1)
    wide = logits.double() if loss == "stablemax" else logits.to(_at_least_fp32(logits))
    log_probabilities = log_stablemax(wide) if loss == "stablemax" else wide.log_softmax(-1)
    picked = log_probabilities.gather(-1, index).squeeze(-1)
    return -picked.where(valid, 0)


def _at_least_fp32(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)
