"""Log-probabilities of the wanted tokens: blocks on whole batches, head on scored rows only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from deeploop.evaluation.config import Precision
from deeploop.evaluation.packing import Batch

LOGITS_AT_ONCE = {"cpu": 2**22, "cuda": 2**28}
"""Logits held at a time: 16 MiB in a CPU's caches, 1 GiB of a GPU."""


class CausalModel(Protocol):
    """What is asked of a model; `deeploop.nn.gpt.LoopedGPT` is one."""

    @property
    def embedding(self) -> Tensor:
        """[vocab_size, hidden_size]: the head."""

    def hidden(self, tokens: Tensor) -> Tensor:
        """Return the states that the head reads, [batch, length, hidden_size].

        Args:
            tokens: [batch, length], int64; causal.
        """

    def branched(self, tokens: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Return the states of rows that hold several continuations of one text.

        Args:
            tokens: [batch, length], int64.
            positions: [batch, length]: each token's place in its own sequence.
            mask: which tokens each one sees, bool [batch, 1, length, length].
        """


class Scores(NamedTuple):
    """One batch's answers, a value for each of its targets."""

    log_probabilities: npt.NDArray[np.float32]
    greedy: npt.NDArray[np.bool_]
    """Whether the target is the most probable token."""


@torch.inference_mode()
def score(model: CausalModel, batch: Batch, precision: Precision) -> Scores:
    """Return log-probability and rank of every target of a batch.

    The blocks run in `precision`; the head and its softmax in fp32 (or the weights' fp64).
    """
    device = model.embedding.device
    states = hidden_states(model, batch, precision).flatten(0, 1)
    rows = states[torch.from_numpy(batch.scored).to(device)]
    targets = torch.from_numpy(batch.targets).to(device)
    log_probabilities, greedy = zip(*_head(rows, model.embedding, targets), strict=True)
    return Scores(torch.cat(log_probabilities).cpu().numpy(), torch.cat(greedy).cpu().numpy())


def hidden_states(model: CausalModel, batch: Batch, precision: Precision) -> Tensor:
    """Return the states of a batch's rows, [rows, length, hidden_size]."""
    device = model.embedding.device
    tokens = torch.from_numpy(batch.tokens).to(device)
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        if not batch.branched:
            return model.hidden(tokens)
        positions = torch.from_numpy(batch.positions).to(device)
        mask = branch_mask(torch.from_numpy(batch.branches).to(device))
        return model.branched(tokens, positions, mask)


def branch_mask(branches: Tensor) -> Tensor:
    """Return who sees whom, [rows, 1, length, length]: earlier tokens, shared or of its branch."""
    length = branches.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=branches.device).tril()
    keys, queries = branches[:, None, None, :], branches[:, None, :, None]
    return causal & ((keys == 0) | (keys == queries))


def _head(states: Tensor, head: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield log-probability and greediness of the targets, a few rows of logits at a time."""
    weights = head.to(torch.promote_types(head.dtype, torch.float32))
    size = max(1, LOGITS_AT_ONCE.get(states.device.type, 2**22) // head.shape[0])
    for rows, wanted in zip(states.split(size), targets.split(size), strict=True):
        logits = F.linear(rows.to(weights.dtype), weights)
        chosen = logits.gather(1, wanted[:, None])[:, 0]
        yield chosen - logits.logsumexp(1), logits.argmax(1) == wanted


def total(
    batches: Sequence[Batch], scores: Sequence[Scores], requests: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return each request's summed log-probability, and whether all its targets are greedy."""
    sums = np.zeros(requests)
    misses = np.zeros(requests)
    for batch, (log_probabilities, greedy) in zip(batches, scores, strict=True):
        sums += np.bincount(batch.owners, log_probabilities, requests)
        misses += np.bincount(batch.owners, ~greedy, requests)
    return sums, misses == 0
