"""The harness's view of a model: `TemplateLM` over a scorer and a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from deeploop.evaluation.generation import generate
from deeploop.evaluation.packing import Request, fitted, pack
from deeploop.evaluation.scorers import Scorer
from deeploop.evaluation.scoring import total
from deeploop.text.tokenizers import Tokenizer

Encoded = tuple[Any, Sequence[int], Sequence[int]]
"""(the request's strings, context, continuation), as the harness hands them over."""
Answer = tuple[float, bool]
"""(log-likelihood, whether the continuation is the greedy one)."""


class DegenerateScores(ValueError):
    """Log-likelihoods that rank nothing: the harness would report the share of first choices."""


class LoopedLM(TemplateLM):
    """A causal model for the harness, with one rank: sharing work is the scorer's business."""

    def __init__(
        self, scorer: Scorer, tokenizer: Tokenizer, window: int, batch_tokens: int
    ) -> None:
        """Make the adapter.

        Args:
            scorer: computes log-probabilities.
            tokenizer: the one the model was trained with.
            window: the most tokens the model reads at once.
            batch_tokens: padded tokens a forward pass.
        """
        super().__init__()
        self.scorer, self.window, self.batch_tokens = scorer, window, batch_tokens
        self.text = tokenizer
        self.truncated = 0
        """Requests so far whose context was cut from the left, or that were scored in pieces."""
        self._encode = lru_cache(maxsize=4096)(self._encode_once)

    @property
    def eot_token_id(self) -> int:
        """The end-of-text token; it stands in for an empty context."""
        return self.text.end_of_text

    @property
    def tokenizer_name(self) -> str:
        """The tokenizer's name."""
        return self.text.name

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        """Return the ids of a string; nothing is added to them."""
        return self._encode(string)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = True) -> list[Answer]:
        """Return log-likelihood and greediness of each (context, continuation)."""
        answers: list[Answer] = super().loglikelihood(requests, disable_tqdm=True)
        return answers

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = True
    ) -> list[float]:
        """Return the log-likelihood of each whole string, every token scored once."""
        pieces: list[Encoded] = []
        owners: list[int] = []
        for number, request in enumerate(requests):
            windows = get_rolling_token_windows(
                token_list=self.tok_encode(request.args[0]),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.window,
                context_len=1,
            )
            pairs = [make_disjoint_window(window) for window in windows]
            pieces += [(None, context, continuation) for context, continuation in pairs]
            owners += [number] * len(pairs)
        values = [value for value, _ in self._loglikelihood_tokens(pieces)]
        sums: list[float] = np.bincount(owners, values, len(requests)).tolist()
        return sums

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """Return each context's greedy continuation up to its stop strings."""
        return generate(
            self.scorer, self.text, self.window, self.batch_tokens, [r.args for r in requests]
        )

    def _loglikelihood_tokens(
        self, requests: Sequence[Encoded], disable_tqdm: bool = True, **kwargs: Any
    ) -> list[Answer]:
        """Score continuations; the batches depend on the requests and `batch_tokens` only.

        Raises:
            DegenerateScores: a value is not finite, or all are equal.
            ValueError: a continuation has no token of its own.
        """
        pieces: list[Request] = []
        owners: list[int] = []
        for number, (strings, context, continuation) in enumerate(requests):
            if not continuation:
                raise ValueError(f"the continuation has no token of its own: {strings!r}")
            self.truncated += len(context) + len(continuation) > self.window + 1
            fit = fitted(context, continuation, self.window)
            pieces += fit
            owners += [number] * len(fit)
        batches = pack(pieces, self.batch_tokens)
        sums, greedy = total(batches, list(self.scorer.score(batches)), len(pieces))
        values = np.asarray(np.bincount(owners, sums, len(requests)), np.float64)
        missed = np.bincount(owners, ~greedy, len(requests))
        _refuse_degenerate(values, [len(continuation) for *_, continuation in requests])
        return [(float(value), not miss) for value, miss in zip(values, missed, strict=True)]

    def _encode_once(self, string: str) -> list[int]:
        ids: list[int] = self.text.encode([string])[0].tolist()
        return ids


def _refuse_degenerate(values: npt.NDArray[np.floating], tokens: list[int]) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        count = len(values) - int(finite.sum())
        raise DegenerateScores(f"{count} of {len(values)} log-likelihoods are not finite")
    if len(values) < 2:
        return
    for shown, what in ((values, "log-likelihoods"), (values / tokens, "log-likelihoods a token")):
        if np.ptp(shown) <= 1e-6 * abs(shown[0]):
            raise DegenerateScores(f"all {len(values)} {what} are {shown[0]:.6g}")
