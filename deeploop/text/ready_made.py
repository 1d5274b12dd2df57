"""Token shards that somebody else has made, in llm.c's format: checked, cut, taken over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deeploop.errors import UserError
from deeploop.text.parts import Contents, views
from deeploop.text.shards import Tokens, open_part
from deeploop.text.tokenizers import TOKENIZERS


def ready_made(params: Mapping[str, Any], files: Sequence[Path]) -> dict[str, Contents]:
    """Return the splits that shards hold; a shard becomes a part.

    Args:
        params: what `deeploop.text.config.Corpus.resolve` returned for a source of shards.
        files: the training shards, then the validation shards.

    Raises:
        UserError: a shard is damaged or holds a token that the tokenizer has not, or validation
            is smaller than the configuration says.
    """
    tokenizer = TOKENIZERS[params["tokenizer"]]
    parts = [_checked(path, tokenizer.vocab_size) for path in files]
    count = params["source"]["train_files"]
    validation = parts[count:]
    if (held := sum(map(len, validation))) < params["validation_tokens"]:
        raise UserError(
            f"the validation shards hold {held} tokens, fewer than validation_tokens "
            f"({params['validation_tokens']})"
        )
    splits = {"train": _first(parts[:count], params["max_tokens"]), "validation": validation}
    return {
        split: Contents([views(part) for part in held], _marks(held, tokenizer.end_of_text))
        for split, held in splits.items()
    }


def _checked(path: Path, vocab_size: int) -> Tokens:
    part = open_part(path)
    largest = max((int(view.max()) for view in views(part)), default=0)
    if largest >= vocab_size:
        raise UserError(f"{path} holds token {largest}, but the tokenizer has only {vocab_size}")
    return part


def _first(parts: Sequence[Tokens], tokens: int | None) -> list[Tokens]:
    """Return views of the first so many tokens."""
    if tokens is None:
        return list(parts)
    first: list[Tokens] = []
    for part in parts:
        if tokens > 0:
            first.append(part[:tokens])
            tokens -= len(part)
    return first


def _marks(parts: Sequence[Tokens], end_of_text: int) -> int:
    """Count the documents: each begins with an end-of-text token."""
    return sum(int(np.count_nonzero(view == end_of_text)) for part in parts for view in views(part))
