from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deeploop.errors import UserError
from deeploop.text.build import build_tokens
from deeploop.text.config import Corpus
from deeploop.text.shards import TokenShards, write_part

END = 50256


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for name, tokens in (
        ("edu_val_000000.bin", [END, 7, 8]),
        ("edu_train_000001.bin", [END, 1, 2, END, 3]),
        ("edu_train_000002.bin", [END, 4, 5, 6]),
    ):
        write_part(tmp_path / name, [np.array(tokens, np.uint16)])
    return tmp_path


def build(root: Path, **changes: Any) -> dict[str, Any]:
    source = {"kind": "shards", "train": ["edu_train_*.bin"], "validation": ["edu_val_*.bin"]}
    corpus = Corpus.model_validate({"source": source, "validation_tokens": 3} | changes)
    params, files = corpus.resolve(root, "tokenize.x")
    (root / "out").mkdir()
    return build_tokens(params, [root / file for file in files], root / "out", root, {})


def test_shards_are_taken_over_as_they_are(shards: Path) -> None:
    manifest = build(shards)
    for ours, theirs in (
        ("train-00000.bin", "edu_train_000001.bin"),
        ("train-00001.bin", "edu_train_000002.bin"),
        ("validation-00000.bin", "edu_val_000000.bin"),
    ):
        assert (shards / "out" / ours).read_bytes() == (shards / theirs).read_bytes()
    said = {name: (s["tokens"], s["documents"]) for name, s in manifest["splits"].items()}
    assert said == {"train": (9, 3), "validation": (3, 1)}
    assert manifest["tokenizer"]["name"] == "gpt2"


def test_max_tokens_cuts_the_training_tokens(shards: Path) -> None:
    manifest = build(shards, max_tokens=7)
    train = TokenShards(shards / "out", "train")
    assert train.read(0, 7).tolist() == [END, 1, 2, END, 3, END, 4] and len(train) == 7
    assert manifest["splits"]["train"]["documents"] == 3


def test_what_is_wrong_with_shards_is_named(shards: Path) -> None:
    with pytest.raises(UserError, match=r"hold 3 tokens, fewer than validation_tokens \(4\)"):
        build(shards, validation_tokens=4)
    (shards / "out").rmdir()
    with pytest.raises(UserError, match="holds token 50256, but the tokenizer has only 256"):
        build(shards, tokenizer="bytes")
    (shards / "out").rmdir()
    damaged = shards / "edu_train_000002.bin"
    damaged.write_bytes(damaged.read_bytes()[:-2])
    with pytest.raises(UserError, match=r"edu_train_000002\.bin is damaged"):
        build(shards)
