"""GPT-2's BPE through gigatoken, many times faster, and never trusted alone.

gigatoken is young. So each process encodes edge cases with both at its start, and after that one
document in a hundred; the first difference ends the work. What both agree on is written.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from deeploop.errors import BuildError, UserError
from deeploop.text.gpt2 import Gpt2Tokenizer
from deeploop.text.shards import TOKEN, Tokens
from deeploop.text.utf8 import utf8

CHECKED_EVERY = 100
"""One document in so many is encoded again by tiktoken."""
RENEWED_AFTER = 2**27
"""Characters after which gigatoken starts with an empty cache: it keeps every word it meets."""
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
        self._characters = self._documents = 0
        self._fast = self._renewed()
        self._compare(EDGE_CASES, [self._encode_fast(text) for text in EDGE_CASES])

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the ids of each document, a sample of them compared with tiktoken's.

        Raises:
            BuildError: the two do not agree; the message shows where.
        """
        self._characters += sum(map(len, texts))
        if self._characters > RENEWED_AFTER:
            self._fast = None  # before there is another
            self._fast, self._characters = self._renewed(), 0
        ids = [self._encode_fast(text) for text in texts]
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
        with TemporaryDirectory() as folder:
            path = Path(folder) / "gpt2.tiktoken"
            path.write_bytes(
                b"".join(
                    b"%s %d\n" % (b64encode(piece), rank) for piece, rank in self.ranks.items()
                )
            )
            # no special tokens: text stays text
            return Tokenizer.from_tiktoken(path, pretokenizer="gpt2", special_tokens={})

    def _encode_fast(self, text: str) -> Tokens:
        # one by one is as fast as in batches, and stays in this thread: our own processes are the
        # parallelism
        try:
            return self._fast.encode(text).astype(TOKEN)
        except TypeError:  # what it says of a lone surrogate
            return self._fast.encode(utf8(text)).astype(TOKEN)

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
