"""Greedy continuation of texts, for the harness's generative tasks.

Every step forwards the whole sequences again: the paper's tasks do not generate, and without a
cache the result is that of scoring, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from deeploop.errors import UserError
from deeploop.evaluation.packing import Batch
from deeploop.evaluation.scorers import Scorer
from deeploop.evaluation.scoring import hidden_states
from deeploop.text.shards import TOKEN
from deeploop.text.tokenizers import Tokenizer

Prompt = tuple[str, Mapping[str, Any]]
"""(context, the task's generation settings)."""


def generate(
    scorer: Scorer,
    tokenizer: Tokenizer,
    window: int,
    batch_tokens: int,
    prompts: Sequence[Prompt],
) -> list[str]:
    """Return the continuation of each prompt, cut at its first stop string.

    Raises:
        UserError: a task samples, or leaves no room for its context.
    """
    texts = [""] * len(prompts)
    for settings, members in _alike(prompts):
        until, new_tokens = _settings(settings, window)
        room = window - new_tokens
        contexts = [
            tokenizer.encode([prompts[member][0]])[0].tolist()[-room:] or [tokenizer.end_of_text]
            for member in members
        ]
        at_once = max(1, batch_tokens // window)
        for start in range(0, len(members), at_once):
            chunk = contexts[start : start + at_once]
            found = _continue(scorer, tokenizer, chunk, new_tokens, until)
            for member, text in zip(members[start : start + at_once], found, strict=True):
                texts[member] = text
    return texts


def _alike(prompts: Sequence[Prompt]) -> Iterator[tuple[Mapping[str, Any], list[int]]]:
    groups: dict[str, list[int]] = {}
    for number, (_, settings) in enumerate(prompts):
        groups.setdefault(repr(settings), []).append(number)
    for members in groups.values():
        yield prompts[members[0]][1], members


def _settings(settings: Mapping[str, Any], window: int) -> tuple[list[str], int]:
    from lm_eval.models.utils import normalize_gen_kwargs

    known = dict(normalize_gen_kwargs(dict(settings), min(256, window // 2)))
    if known.get("do_sample"):
        raise UserError("this task samples its answers; only greedy generation is there")
    new_tokens: int = known["max_gen_toks"]
    if new_tokens >= window:
        raise UserError(
            f"this task generates up to {new_tokens} tokens, the model reads {window}: "
            "no room is left for its questions"
        )
    return list(known["until"]), new_tokens


def _continue(
    scorer: Scorer,
    tokenizer: Tokenizer,
    contexts: Sequence[Sequence[int]],
    new_tokens: int,
    until: Sequence[str],
) -> list[str]:
    sequences = [list(context) for context in contexts]
    texts: list[str | None] = [None] * len(sequences)
    for _ in range(new_tokens):
        open_rows = [row for row, text in enumerate(texts) if text is None]
        if not open_rows:
            break
        ahead = _next_tokens(scorer, tokenizer, [sequences[row] for row in open_rows])
        for row, token in zip(open_rows, ahead, strict=True):
            sequences[row].append(token)
            new = sequences[row][len(contexts[row]) :]
            text = tokenizer.decode(np.array(new, TOKEN))
            if token == tokenizer.end_of_text:
                texts[row] = _cut(tokenizer.decode(np.array(new[:-1], TOKEN)), until)
            elif any(stop and stop in text for stop in until) or len(new) == new_tokens:
                texts[row] = _cut(text, until)
    return [text or "" for text in texts]


@torch.inference_mode()
def _next_tokens(
    scorer: Scorer, tokenizer: Tokenizer, sequences: Sequence[Sequence[int]]
) -> list[int]:
    tokens = np.zeros((len(sequences), max(map(len, sequences))), np.int64)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = sequence
    none = np.zeros(0, np.int64)
    batch = Batch(tokens, none, np.zeros_like(tokens), none, none, none)
    states = hidden_states(scorer.model, batch, scorer.precision)
    last = torch.tensor([len(sequence) - 1 for sequence in sequences], device=states.device)
    rows = states[torch.arange(len(sequences), device=states.device), last]
    weights = scorer.model.embedding[: tokenizer.vocab_size]  # without the padding rows
    chosen: list[int] = F.linear(rows.to(weights.dtype), weights).argmax(1).tolist()
    return chosen


def _cut(text: str, until: Sequence[str]) -> str:
    for stop in until:
        if stop:
            text = text.split(stop)[0]
    return text
