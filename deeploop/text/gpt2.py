"""GPT-2's byte-level BPE through tiktoken, the reference for its ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deeploop.text.gpt2_files import GPT2_FILES, find_gpt2_file
from deeploop.text.shards import TOKEN, Tokens
from deeploop.text.utf8 import well_formed

END_OF_TEXT = "<|endoftext|>"


class Gpt2Tokenizer:
    """GPT-2's byte-level BPE, 50,257 ids, through tiktoken."""

    name = "gpt2"
    vocab_size = 50257
    end_of_text = 50256
    files: Mapping[str, str] = GPT2_FILES

    def __init__(self, folder: Path | None = None) -> None:
        """Load the vocabulary, from `folder` or from where it is found.

        Raises:
            UserError: no copy with the right sha256 can be had.
        """
        import tiktoken
        from tiktoken_ext.openai_public import r50k_pat_str

        paths = {name: find_gpt2_file(name, folder) for name in GPT2_FILES}
        self.ranks = read_ranks(paths["encoder.json"])
        self._encoding = tiktoken.Encoding(
            self.name,
            explicit_n_vocab=self.vocab_size,
            pat_str=r50k_pat_str,
            mergeable_ranks=self.ranks,
            special_tokens={END_OF_TEXT: self.end_of_text},
        )

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the ids that tiktoken's `encode_ordinary` returns for each document."""
        return [self._encoded(text).astype(TOKEN) for text in texts]

    def _encoded(self, text: str) -> NDArray[np.uint32]:
        try:
            return self._encoding.encode_to_numpy(text, disallowed_special=())
        except UnicodeEncodeError:
            return self._encoding.encode_to_numpy(well_formed(text), disallowed_special=())

    def decode(self, tokens: Tokens) -> str:
        """Return the text of ids."""
        return self._encoding.decode(tokens.tolist())


def read_ranks(encoder: Path) -> dict[bytes, int]:
    """Return the rank of each of GPT-2's byte sequences, which is its id, from `encoder.json`.

    The same as tiktoken's reader returns, which takes four times as long: it derives the ranks
    from `vocab.bpe` and compares; here both files are known by their sha256.
    """
    ids = json.loads(encoder.read_text(encoding="utf-8"))
    bytes_of = _characters()
    return {
        text.translate(bytes_of).encode("latin-1"): rank
        for text, rank in ids.items()
        if text != END_OF_TEXT
    }


def _characters() -> dict[int, int]:
    """Return the byte that each character of `encoder.json` stands for.

    Printable bytes stand for themselves, the others for the characters from U+0100 on.
    """
    shown = (*range(33, 127), *range(161, 173), *range(174, 256))
    hidden = (byte for byte in range(256) if byte not in shown)
    return {byte: byte for byte in shown} | {256 + i: byte for i, byte in enumerate(hidden)}
