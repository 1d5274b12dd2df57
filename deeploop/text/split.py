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
    threshold: int | None
    """A document is validation when its hash is at most this; none is when None."""

    def is_validation(self, documents: Documents) -> NDArray[np.bool_]:
        """Mark the validation documents; bool [documents]."""
        if self.threshold is None:
            return np.zeros(len(documents), dtype=np.bool_)
        return documents["hash"] <= np.uint64(self.threshold)


def choose_split(
    units: Sequence[Documents], validation_tokens: int, max_tokens: int | None
) -> Split:
    """Choose the documents kept, and those of them that are validation.

    Args:
        units: each unit's documents in order; DOCUMENT [documents]. Looked at one at a time.
        validation_tokens: validation has at least so many tokens, and not a document more; 0 for
            no validation.
        max_tokens: the kept documents have at most so many tokens; all are kept when None.

    Raises:
        UserError: there are no documents, or none would be left for training.
    """
    kept = _kept(units, max_tokens)
    total = sum(_tokens(unit[:count]) for unit, count in zip(units, kept, strict=True))
    if total == 0:
        raise UserError("the corpus is empty: no document was found (or max_tokens is too small)")
    if validation_tokens == 0:
        return Split(kept, None)
    lowest = _lowest(units, kept, validation_tokens)
    if _tokens(lowest) < validation_tokens or len(lowest) == sum(kept):
        raise UserError(
            f"validation_tokens ({validation_tokens}) leaves nothing to train on: the corpus has "
            f"{total} tokens in {sum(kept)} documents, and documents are never cut"
        )
    return Split(kept, int(lowest["hash"][-1]))


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


def _lowest(units: Sequence[Documents], kept: Sequence[int], wanted: int) -> Documents:
    """Return the documents with the smallest hashes that have `wanted` tokens, in that order."""
    lowest: Documents = np.empty(0, dtype=DOCUMENT)
    for unit, count in zip(units, kept, strict=True):
        joined = np.concatenate([lowest, unit[:count]])
        joined = joined[np.argsort(joined["hash"], kind="stable")]
        ends = np.cumsum(joined["tokens"], dtype=np.int64)
        lowest = joined[: int(np.searchsorted(ends, wanted)) + 1]
    return lowest


def _tokens(documents: Documents) -> int:
    return int(documents["tokens"].sum(dtype=np.int64))
