"""Which window of the token stream a training reads at (seed, step, row), and validation's.

Windows start at uniformly random tokens, drawn with replacement, and cross documents: the
sampling of nanoGPT and its descendants. The draw is counter-based, so that it depends on nothing
but seed, step and row: not on processes, micro-batch, or what was drawn before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deeploop.errors import UserError
from deeploop.text.shards import Tokens, TokenShards


def window_starts(seed: int, step: int, rows: range, choices: int) -> NDArray[np.int64]:
    """Draw the first token of the windows of global rows `rows`; int64 [len(rows)].

    Args:
        seed: the run's seed.
        step: optimizer step, from 0.
        rows: rows of the global batch, with step 1; any slice gives the same row the same window.
        choices: how many starts there are; each is equally likely up to choices / 2**64.
    """
    generator = np.random.Philox(key=[seed, 0], counter=[0, step, 0, 0])
    drawn = generator.random_raw(rows.stop)[rows.start :]
    return (drawn % np.uint64(choices)).astype(np.int64)


class TrainingWindows:
    """Training batches of one run, any slice of any step."""

    def __init__(self, shards: TokenShards, context_length: int, seed: int) -> None:
        """Take windows of `context_length` inputs and as many next tokens.

        Raises:
            UserError: the shards are shorter than one window.
        """
        self._choices = len(shards) - context_length
        if self._choices < 1:
            raise UserError(_too_small(shards, context_length, 1))
        self._shards = shards
        self._length = context_length + 1
        self._seed = seed

    def batch(self, step: int, rows: range) -> Tokens:
        """Return uint16 [len(rows), context_length + 1]: inputs `[:, :-1]`, targets `[:, 1:]`."""
        starts = window_starts(self._seed, step, rows, self._choices)
        return self._shards.windows(starts, self._length)


class ValidationWindows:
    """The first so many tokens of a split, as consecutive whole windows; none is read twice."""

    def __init__(self, shards: TokenShards, context_length: int, tokens: int) -> None:
        """Take `tokens // context_length` windows from the start of the stream.

        Raises:
            UserError: `tokens` is less than a window, or the shards hold fewer.
        """
        self._shards = shards
        self._context = context_length
        self._count = tokens // context_length
        if self._count < 1:
            raise UserError(
                f"validation on {tokens} tokens is less than one context of {context_length}"
            )
        if len(shards) < self._count * context_length + 1:
            raise UserError(_too_small(shards, context_length, self._count))

    def __len__(self) -> int:
        return self._count

    def batch(self, rows: range) -> Tokens:
        """Return windows `rows`; uint16 [len(rows), context_length + 1] as in training."""
        starts = np.arange(rows.start, rows.stop, dtype=np.int64) * self._context
        return self._shards.windows(starts, self._context + 1)


def _too_small(shards: TokenShards, context_length: int, windows: int) -> str:
    needed = windows * context_length + 1
    return (
        f"the {shards.split} tokens in {shards.folder} are too few: {len(shards)}, where "
        f"{windows} windows of {context_length} need {needed}; "
        "use more text or a larger validation_tokens"
    )
