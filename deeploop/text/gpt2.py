"""GPT-2's byte-level BPE through tiktoken, the reference for its ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deeploop.text.gpt2_files import GPT2_FILES, find_gpt2_file
from deeploop.text.shards import TOKEN, Tokens
from deeploop.text.utf8 import well_formed


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
        from tiktoken.load import data_gym_to_mergeable_bpe_ranks
        from tiktoken_ext.openai_public import r50k_pat_str

        paths = {name: str(find_gpt2_file(name, folder)) for name in GPT2_FILES}
        self.ranks: Mapping[bytes, int] = data_gym_to_mergeable_bpe_ranks(
            paths["vocab.bpe"], paths["encoder.json"]
        )
        self._encoding = tiktoken.Encoding(
            self.name,
            explicit_n_vocab=self.vocab_size,
            pat_str=r50k_pat_str,
            mergeable_ranks=dict(self.ranks),
            special_tokens={"<|endoftext|>": self.end_of_text},
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
