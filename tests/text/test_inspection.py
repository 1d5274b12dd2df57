from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deeploop.errors import UserError
from deeploop.fileio import sha256_file
from deeploop.text.inspection import as_text, inspect_shards
from deeploop.text.shards import write_part


def write(path: Path, *texts: str) -> None:
    raw = "".join("\0" + text for text in texts).encode()
    write_part(path, [np.frombuffer(raw, np.uint8).astype(np.uint16)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "train-00000.bin", "a", "hello", "a", "")
    write(tmp_path / "train-00001.bin", "hello", "something longer")
    write(tmp_path / "validation-00000.bin", "held out")
    describe(tmp_path)
    return tmp_path


def describe(folder: Path) -> None:
    splits: dict[str, dict[str, list[dict[str, str]]]] = {}
    for path in sorted(folder.glob("*.bin")):
        parts = splits.setdefault(path.stem.partition("-")[0], {"parts": []})["parts"]
        parts.append({"file": path.name, "sha256": sha256_file(path)})
    manifest = {"tokenizer": {"name": "bytes"}, "splits": splits}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_counts_lengths_duplicates_and_samples(folder: Path) -> None:
    found = inspect_shards(folder)
    train, validation = found.splits
    assert found.tokenizer == "bytes" and found.problems == ()
    assert (train.name, train.parts, train.tokens, train.documents) == ("train", 2, 34, 6)
    assert train.duplicates == 2
    assert train.lengths == {1: 1, 2: 2, 8: 2, 32: 1}
    assert train.samples == ("a", "a", "hello")
    assert (validation.documents, validation.samples) == (1, ("held out",))
    text = as_text(found)
    assert (
        "train: 34 tokens (6.8e-08 GB) in 2 parts, 6 documents, 33.33% of them duplicates" in text
    )
    assert "       4 to 7                   2  " + "#" * 40 in text
    assert text.endswith("> 'held out'\nnothing is wrong")


def test_one_shard_without_a_manifest_is_looked_at_alone(folder: Path) -> None:
    [split] = inspect_shards(folder / "train-00001.bin", "bytes").splits
    assert (split.tokens, split.documents) == (23, 2)


def test_what_is_wrong_is_listed_and_the_rest_is_counted(folder: Path) -> None:
    write(folder / "validation-00000.bin", "hello")
    truncated = folder / "train-00001.bin"
    truncated.write_bytes(truncated.read_bytes()[:-1])
    write(folder / "train-00002.bin", "z")
    (folder / "other.bin").write_bytes(b"no shard" * 200)
    found = inspect_shards(folder)
    said = "\n".join(found.problems)
    assert "train-00001.bin is not what the manifest says" in said
    assert "train-00001.bin is damaged: its header promises 23 tokens, the file holds 22.5" in said
    assert "train-00002.bin is not in the manifest" in said
    assert "other.bin is not a token shard" in said
    assert "1 of 1 validation documents are in train too" in said
    assert next(split for split in found.splits if split.name == "train").documents == 5
    (folder / "train-00000.bin").unlink()
    assert "train-00000.bin is in the manifest and not there" in inspect_shards(folder).problems[0]


def test_tokens_of_another_tokenizer_and_cut_beginnings_are_named(tmp_path: Path) -> None:
    write_part(tmp_path / "train-00000.bin", [np.array([7, 0, 300], np.uint16)])
    [problem] = inspect_shards(tmp_path, "bytes").problems
    assert "train-00000.bin holds token 300, but bytes has only 256" in problem
    write_part(tmp_path / "train-00000.bin", [np.array([7, 0, 30], np.uint16)])
    [problem] = inspect_shards(tmp_path, "bytes").problems
    assert "does not begin with an end-of-text token" in problem


def test_a_folder_without_shards_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no token shards"):
        inspect_shards(tmp_path)
