"""English of this machine as Parquet in FineWeb-Edu's schema: docstrings of installed packages.

A document is as many docstrings as make it about as long as FineWeb-Edu's are. Where docstrings are
not enough, further ones are the same with their paragraphs in another order and every hundredth
word replaced by one that was never seen, so that no tokenizer's cache knows it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from hashlib import blake2b
from importlib.metadata import distributions
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from deeploop.errors import UserError
from deeploop.text.docstrings import package_docstrings

ROWS = 1000
"""Rows of a row group, as in FineWeb-Edu."""
LOG_LENGTH = (8.0, 0.9)
"""Mean and deviation of the logarithm of a document's characters: 4,500 in the mean, a thousand
tokens of prose, as the 9.7 million documents of sample/10BT have."""
LETTERS = "etaoinshrdlucmfw"


def write_english(
    folder: Path, megabytes: int, files: int, original: float = math.inf
) -> list[Path]:
    """Write so much UTF-8 text into so many files, unless they are there; return them.

    Finding docstrings is slow: after `original` megabytes of them the rest is variations.
    """
    paths = [folder / f"{megabytes}mb-{index:03d}_00000.parquet" for index in range(files)]
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        documents = _documents(original * 1e6)
        for path in paths:
            _write(path, documents, megabytes * 10**6 // files)
    return paths


def _documents(original: float) -> Iterator[str]:
    generator = random.Random(0)
    held: list[str] = []
    length, wanted = 0, 0.0
    for text in _docstrings(generator, original):
        held.append(text)
        length += len(text)
        if length >= wanted:
            yield "\n\n".join(held)
            held, length, wanted = [], 0, generator.lognormvariate(*LOG_LENGTH)


def _docstrings(generator: random.Random, original: float) -> Iterator[str]:
    seen: dict[str, None] = {}
    found = 0
    for text in _found():
        if text not in seen:
            seen[text] = None
            found += len(text)
            yield text
        if found >= original:
            break
    while True:
        for text in seen:
            yield _varied(text, generator)


def _found() -> Iterator[str]:
    for name in sorted({found.metadata["Name"] for found in distributions()}):
        try:
            for text in package_docstrings(name):
                yield text.encode("utf-8", "replace").decode()
        except UserError:
            continue  # no Python files


def _varied(text: str, generator: random.Random) -> str:
    paragraphs = text.split("\n\n")
    generator.shuffle(paragraphs)
    words = "\n\n".join(paragraphs).split(" ")
    for index in range(generator.randrange(100), len(words), 100):
        words[index] = "".join(generator.choices(LETTERS, k=6))
    return " ".join(words)


def _write(path: Path, documents: Iterator[str], size: int) -> None:
    temporary = path.with_suffix(".tmp")
    with ParquetWriter(temporary, _SCHEMA, compression="zstd") as writer:
        while size > 0:
            texts = list(islice(documents, ROWS))
            size -= sum(len(text.encode()) for text in texts)
            writer.write_table(_table(texts))
    temporary.rename(path)


_SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("id", pa.string()),
        ("dump", pa.string()),
        ("url", pa.string()),
        ("file_path", pa.string()),
        ("language", pa.string()),
        ("language_score", pa.float64()),
        ("token_count", pa.int64()),
        ("score", pa.float64()),
        ("int_score", pa.int64()),
    ]
)


def _table(texts: list[str]) -> pa.Table:
    rows = len(texts)
    numbers = {"language_score": 0.95, "token_count": 300, "score": 3.1, "int_score": 3}
    words = {"dump": "CC-MAIN-2024-10", "file_path": "s3://commoncrawl/" + "x" * 80}
    columns = {
        "text": texts,
        "id": [
            f"<urn:uuid:{blake2b(text.encode(), digest_size=16).hexdigest()}>" for text in texts
        ],
        "url": [f"https://example.org/{index}" for index in range(rows)],
        "language": ["en"] * rows,
        **{name: [value] * rows for name, value in (numbers | words).items()},
    }
    return pa.table({field.name: columns[field.name] for field in _SCHEMA}, schema=_SCHEMA)
