"""Which documents of a corpus are kept, and which of them are validation.

Validation is the documents with the smallest hashes of their ids, just enough of them: a function
of the set of documents alone, not of their order, of files, or of how many processes read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeploop.errors import UserError
from deeploop.text.units import DOCUMENT, Documents


@dataclass(frozen=True)
class Split:
    """The outcome, over all units."""

    kept: tuple[int, ...]
    """Documents kept of each unit: its first so many."""
    threshold: np.uint64
    """A document is validation when its hash is at most this."""

    def is_validation(self, documents: Documents) -> NDArray[np.bool_]:
        """Mark the validation documents; bool [documents]."""
        return documents["hash"] <= self.threshold


def choose_split(
    units: Sequence[Documents], validation_tokens: int, max_tokens: int | None
) -> Split:
    """Choose the documents kept, and those of them that are validation.

    Args:
        units: each unit's documents in order; DOCUMENT [documents].
        validation_tokens: validation has at least so many tokens, and not a document more.
        max_tokens: the kept documents have at most so many tokens; all are kept when None.

    Raises:
        UserError: there are no documents, or none would be left for training.
    """
    kept = _kept(units, max_tokens)
    documents = [unit[:count] for unit, count in zip(units, kept, strict=True)]
    total = sum(int(unit["tokens"].sum(dtype=np.int64)) for unit in documents)
    if total == 0:
        raise UserError("the corpus is empty: no document was found (or max_tokens is too small)")
    threshold = _threshold(documents, validation_tokens)
    if threshold is None or all((unit["hash"] <= threshold).all() for unit in documents):
        count = sum(kept)
        raise UserError(
            f"validation_tokens ({validation_tokens}) leaves nothing to train on: the corpus has "
            f"{total} tokens in {count} documents, and documents are never cut"
        )
    return Split(kept, threshold)


def _kept(units: Sequence[Documents], max_tokens: int | None) -> tuple[int, ...]:
    kept: list[int] = []
    left = max_tokens
    for unit in units:
        if left is None:
            kept.append(len(unit))
            continue
        ends = np.cumsum(unit["tokens"], dtype=np.int64)
        count = int(np.searchsorted(ends, left, side="right"))
        kept.append(count)
        # a document that did not fit ends the corpus: later, shorter ones are not let in
        left = 0 if count < len(unit) else left - (int(ends[-1]) if count else 0)
    return tuple(kept)


def _threshold(units: Sequence[Documents], wanted: int) -> np.uint64 | None:
    """Return the largest of the smallest hashes whose documents have `wanted` tokens."""
    lowest = np.empty(0, dtype=DOCUMENT)
    for unit in units:
        joined = np.concatenate([lowest, unit])
        joined = joined[np.argsort(joined["hash"], kind="stable")]
        ends = np.cumsum(joined["tokens"], dtype=np.int64)
        lowest = joined[: int(np.searchsorted(ends, wanted)) + 1]
    if lowest["tokens"].sum(dtype=np.int64) < wanted:
        return None
    return np.uint64(lowest["hash"][-1])
