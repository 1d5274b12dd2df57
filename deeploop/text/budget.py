"""What preparing a corpus costs, before it is begun: core-hours, hours, disk.

Rates are what `python -m bench.tokenize` measured, rounded down, in bytes of text per core-second;
docs/data.md has the table. How much text a token is, and how much a download, is FineWeb-Edu's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BYTES_PER_CORE_SECOND = {"tiktoken": 15e6, "fast": 75e6}
"""Of UTF-8 text, from Parquet to shards, by back end."""
TEXT_BYTES_PER_TOKEN = 4.8
"""Of English web prose in GPT-2's vocabulary, rounded up: code and lists have fewer."""
DOWNLOAD_BYTES_PER_TOKEN = 2.9
"""sample/10BT of FineWeb-Edu: 28,518,193,415 bytes in 14 Parquet files."""
TOKEN_BYTES = 2
UNIT_TOKENS = 0.75e9
"""Of one file of sample/100BT: what lies on the disk twice while its parts are written."""


@dataclass(frozen=True)
class Budget:
    """The cost of one corpus."""

    tokens: int
    backend: str
    workers: int
    core_hours: float
    hours: float
    """With so many workers, each on a core of its own."""
    download_gb: float
    """Parquet files, kept in the store."""
    shards_gb: float
    peak_gb: float
    """Of the stage `tokenize` alone, the download not counted."""

    def __str__(self) -> str:
        """Return one line for a terminal."""
        return (
            f"{self.tokens / 1e9:,.3f}B tokens: {self.core_hours:.1f} core-hours with "
            f"{self.backend}, {self.hours:.1f} hours on {self.workers} "
            f"core{'s' if self.workers > 1 else ''}; disk: {self.download_gb:.0f} GB of text, "
            f"{self.shards_gb:.1f} GB of shards, {self.peak_gb:.1f} GB while they are made"
        )


def text_budget(tokens: int, backend: str = "tiktoken", workers: int = 1) -> Budget:
    """Return what it costs to make so many GPT-2 tokens of FineWeb-Edu."""
    core_hours = tokens * TEXT_BYTES_PER_TOKEN / BYTES_PER_CORE_SECOND[backend] / 3600
    shards = tokens * TOKEN_BYTES
    return Budget(
        tokens=tokens,
        backend=backend,
        workers=workers,
        core_hours=core_hours,
        hours=core_hours / workers,
        download_gb=tokens * DOWNLOAD_BYTES_PER_TOKEN / 1e9,
        shards_gb=shards / 1e9,
        peak_gb=(shards + min(UNIT_TOKENS, tokens) * TOKEN_BYTES) / 1e9,
    )


def corpus_budget(params: Mapping[str, Any], execution: Mapping[str, Any]) -> Budget | None:
    """Return the cost of a planned run of `tokenize`, where its size is declared.

    Args:
        params: what `deeploop.text.config.Corpus.resolve` returned.
        execution: fields of `deeploop.text.config.TextExecution`.
    """
    encoded = params["tokenizer"] == "gpt2" and params["source"]["kind"] != "shards"
    if not encoded or params["max_tokens"] is None:
        return None
    return text_budget(params["max_tokens"], execution["backend"], execution["workers"])
