from __future__ import annotations

import sys

import numpy as np
import pytest

from deeploop.errors import BuildError, UserError
from deeploop.text import fast_gpt2
from deeploop.text.fast_gpt2 import CHECKED_EVERY, FastGpt2Tokenizer
from deeploop.text.gpt2 import Gpt2Tokenizer
from deeploop.text.shards import Tokens
from tests.text.test_tokenizers import EDGE_STRINGS


def test_ids_are_tiktokens_on_edge_strings_and_random_text() -> None:
    pytest.importorskip("gigatoken")
    random = np.random.default_rng(0)
    letters = [*"aé\n\t\r '.<|1北 ", "\U0001f600", "\ud800", "<|endoftext|>", "loop", " Deep"]
    mixed = ["".join(random.choice(letters, size=200)) for _ in range(300)]
    texts = [*EDGE_STRINGS, *mixed]
    fast = FastGpt2Tokenizer()
    for text, ids, right in zip(
        texts, fast.encode(texts), Gpt2Tokenizer().encode(texts), strict=True
    ):
        assert ids.dtype == np.uint16
        np.testing.assert_array_equal(ids, right, err_msg=repr(text))


def test_renewing_the_cache_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gigatoken")
    monkeypatch.setattr(fast_gpt2, "RENEWED_AFTER", 1)
    fast = FastGpt2Tokenizer()
    begun = fast._fast
    assert [ids.tolist() for ids in fast.encode(["hello world", "again"])] == [
        [31373, 995],
        [17776],
    ]
    assert fast._fast is not begun


class Wrong(FastGpt2Tokenizer):
    """One that makes the same mistake in one word as a real tokenizer once did."""

    def _encode_fast(self, text: str) -> Tokens:
        ids = super()._encode_fast(text)
        return ids[:-1] if "downfall" in text else ids


def test_the_first_difference_in_a_sample_ends_the_work() -> None:
    pytest.importorskip("gigatoken")
    tokenizer = Wrong()
    tokenizer.encode(["all is well"])  # the first document is in the sample, so is the 101st
    assert len(tokenizer.encode(["a downfall"])[0]) == 1  # wrong, and not looked at
    tokenizer.encode(["all is well"] * (CHECKED_EVERY - 2))
    with pytest.raises(BuildError, match=r"disagree near 'a downfall': use `backend: tiktoken`"):
        tokenizer.encode(["a downfall"])


def test_edge_cases_are_compared_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gigatoken")
    monkeypatch.setattr(fast_gpt2, "EDGE_CASES", ("a downfall",))
    with pytest.raises(BuildError, match="disagree"):
        Wrong()


def test_without_gigatoken_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gigatoken", None)
    with pytest.raises(UserError, match=r"needs gigatoken: pip install 'deeploop\[fast\]'"):
        FastGpt2Tokenizer()
