from __future__ import annotations

import numpy as np
import pytest

from deeploop.errors import UserError
from deeploop.text.split import choose_split
from deeploop.text.units import DOCUMENT, Documents, document_hash


def documents(sizes: list[int], first: int = 0) -> Documents:
    rows = [(document_hash(f"doc-{first + i}"), size) for i, size in enumerate(sizes)]
    return np.array(rows, dtype=DOCUMENT)


def validation_hashes(units: list[Documents], tokens: int) -> set[int]:
    split = choose_split(units, tokens, None)
    return {int(h) for unit in units for h in unit["hash"][split.is_validation(unit)]}


def test_the_split_does_not_depend_on_order_or_files() -> None:
    sizes = np.random.default_rng(0).integers(1, 50, size=300).tolist()
    whole = documents(sizes)
    chosen = validation_hashes([whole], 400)
    shuffled = whole[np.random.default_rng(1).permutation(len(whole))]
    assert validation_hashes(np.array_split(shuffled, 7), 400) == chosen
    assert validation_hashes([whole[:0], whole[100:], whole[:100]], 400) == chosen


def test_validation_has_the_tokens_declared_and_not_a_document_more() -> None:
    whole = documents(list(range(1, 101)))
    for wanted in (1, 57, 400, 3000):
        split = choose_split([whole], wanted, None)
        taken = whole[split.is_validation(whole)]
        largest = taken[np.argmax(taken["hash"])]
        assert taken["tokens"].sum() >= wanted > taken["tokens"].sum() - largest["tokens"]


def test_copies_of_a_document_stand_on_one_side() -> None:
    whole = documents([10] * 50)
    split = choose_split([whole, whole], 100, None)
    marks = split.is_validation(whole)
    assert marks.sum() == 5


def test_the_corpus_ends_before_the_document_that_would_exceed_the_limit() -> None:
    units = [documents([3, 3]), documents([5, 1, 1], first=2), documents([1], first=5)]
    assert choose_split(units, 1, 100).kept == (2, 3, 1)
    assert choose_split(units, 1, 12).kept == (2, 2, 0)
    assert choose_split(units, 1, 10).kept == (2, 0, 0)
    assert choose_split(units, 1, 6).kept == (2, 0, 0)


def test_nothing_to_split_is_named() -> None:
    for units in ([], [documents([])]):
        with pytest.raises(UserError, match="the corpus is empty"):
            choose_split(units, 1, None)
    for sizes, wanted in (([10], 1), ([10, 10], 15), ([10, 10], 100)):
        with pytest.raises(UserError, match=rf"validation_tokens \({wanted}\) leaves nothing"):
            choose_split([documents(sizes)], wanted, None)
