"""Text to token ids: bytes for the demo, GPT-2's BPE for the paper.

Both give uint16 ids and put an end-of-text token before each document, as the paper's lineage
does. For bytes that is byte 0, which text does not contain; a document that does hold NULs keeps
them, and they read as boundaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from deeploop.text.fast_gpt2 import FastGpt2Tokenizer
from deeploop.text.gpt2 import Gpt2Tokenizer
from deeploop.text.shards import TOKEN, Tokens
from deeploop.text.utf8 import utf8

Backend = Literal["tiktoken", "fast"]


class Tokenizer(Protocol):
    """What turns documents into ids, and back."""

    name: str
    vocab_size: int
    end_of_text: int
    files: Mapping[str, str]
    """sha256 of each file that defines the vocabulary."""

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the ids of each document, uint16, without an end-of-text token.

        What looks like a special token in a document is encoded as the text it is.
        """

    def decode(self, tokens: Tokens) -> str:
        """Return the text of ids; bytes that are no UTF-8 become U+FFFD."""


class ByteTokenizer:
    """UTF-8 bytes; 256 ids, 0 is end-of-text."""

    name = "bytes"
    vocab_size = 256
    end_of_text = 0
    files: Mapping[str, str] = {}

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the UTF-8 bytes of each document."""
        return [np.frombuffer(utf8(text), dtype=np.uint8).astype(TOKEN) for text in texts]

    def decode(self, tokens: Tokens) -> str:
        """Return the text of bytes."""
        return tokens.astype(np.uint8).tobytes().decode(errors="replace")


TOKENIZERS: Mapping[str, type[ByteTokenizer] | type[Gpt2Tokenizer]] = {
    tokenizer.name: tokenizer for tokenizer in (ByteTokenizer, Gpt2Tokenizer)
}
"""By the names that `deeploop.text.config.Corpus` allows."""


def load_tokenizer(
    name: str, files: Path | None = None, backend: Backend = "tiktoken"
) -> Tokenizer:
    """Return the tokenizer of a name that `deeploop.text.config.Corpus` allows.

    Args:
        name: `bytes` or `gpt2`.
        files: folder with GPT-2's files, when they are not to be looked for.
        backend: what encodes GPT-2's BPE; the ids are the same.

    Raises:
        UserError: its files, or the package of its backend, are not there.
    """
    if name == "bytes":
        return ByteTokenizer()
    if backend == "fast":
        return FastGpt2Tokenizer(files)
    return Gpt2Tokenizer(files)
