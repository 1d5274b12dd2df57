"""GPT-2's BPE through gigatoken, many times faster, and never trusted alone.

gigatoken is young. So each process encodes edge cases with both at its start, and after that one
document in a hundred; the first difference ends the work. What both agree on is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from deeploop.errors import BuildError, UserError
from deeploop.text.gpt2 import Gpt2Tokenizer
from deeploop.text.shards import TOKEN, Tokens
from deeploop.text.utf8 import utf8

CHECKED_EVERY = 100
"""One document in so many is encoded again by tiktoken."""
RENEWED_AFTER = 2**28
"""Bytes of text after which gigatoken starts with an empty cache: it keeps every word it meets."""
EDGE_CASES = (
    "",
    " \n\t ",
    "a <|endoftext|> inside",
    "line\r\nline\r\n\r\n",
    "NUL\0 here",
    "\t\t'downturn' it's I'LL 1234567890",
    "x" * 3000,
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \ud800 na\u00efve \u5317\u4eac",
)


class FastGpt2Tokenizer(Gpt2Tokenizer):
    """The ids of `Gpt2Tokenizer`, from gigatoken."""

    def __init__(self, folder: Path | None = None) -> None:
        """Load both, and compare them on the edge cases.

        Raises:
            UserError: gigatoken is not installed, or GPT-2's files cannot be had.
            BuildError: the two do not agree.
        """
        super().__init__(folder)
        self._definition = _definition(self.paths)
        self._bytes = self._documents = 0
        self._fast = self._renewed()
        self._compare(EDGE_CASES, list(self._encode_fast([utf8(text) for text in EDGE_CASES])))

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the ids of each document, a sample of them compared with tiktoken's.

        Raises:
            BuildError: the two do not agree; the message shows where.
        """
        raw = [utf8(text) for text in texts]
        self._bytes += sum(map(len, raw))
        if self._bytes > RENEWED_AFTER:
            self._fast, self._bytes = self._renewed(), 0
        ids = list(self._encode_fast(raw))
        first = -self._documents % CHECKED_EVERY
        self._documents += len(texts)
        self._compare(texts[first::CHECKED_EVERY], ids[first::CHECKED_EVERY])
        return ids

    def _renewed(self) -> Any:
        try:
            from gigatoken import Tokenizer
        except ImportError as error:
            raise UserError(
                "the fast back end needs gigatoken: pip install 'deeploop[fast]', or leave out "
                "`backend: fast`"
            ) from error
        return Tokenizer.from_json(self._definition)

    def _encode_fast(self, raw: Sequence[bytes]) -> Iterator[Tokens]:
        # in the calling thread: our own processes are the parallelism
        layout = self._fast.encode_batch(list(raw), parallel=False).layout
        ids = np.asarray(layout.content.data).astype(TOKEN)
        yield from (ids[begin:end] for begin, end in pairwise(layout.offsets.data.tolist()))

    def _compare(self, texts: Sequence[str], found: Sequence[Tokens]) -> None:
        for ids, right in zip(found, super().encode(texts), strict=True):
            if not np.array_equal(ids, right):
                shared = min(len(ids), len(right))
                at = int(np.argmin([*(ids[:shared] == right[:shared]), False]))
                where = self.decode(right[max(at - 4, 0) : at + 4])
                raise BuildError(
                    f"gigatoken and tiktoken disagree near {where!r}: use `backend: tiktoken`, "
                    "which takes over nothing that gigatoken has made"
                )


def _definition(paths: Mapping[str, Path]) -> str:
    """Return GPT-2's BPE as a tokenizer.json, without special tokens: text stays text."""
    vocabulary: dict[str, int] = json.loads(paths["encoder.json"].read_text(encoding="utf-8"))
    vocabulary.pop("<|endoftext|>")
    _, *merges = paths["vocab.bpe"].read_text(encoding="utf-8").split("\n")
    model = {"type": "BPE", "vocab": vocabulary, "merges": [merge for merge in merges if merge]}
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": split | {"use_regex": True},
            "decoder": {"type": "ByteLevel"},
            "model": model,
        }
    )
