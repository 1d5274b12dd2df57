from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deeploop.errors import UserError
from deeploop.text.shards import TokenShards, open_part, part_name, write_part


def stream(count: int) -> np.ndarray:
    return (np.arange(count) * 40503 % 65536).astype(np.uint16)


def write(folder: Path, sizes: list[int], split: str = "train") -> np.ndarray:
    tokens = stream(sum(sizes))
    for index, piece in enumerate(np.split(tokens, np.cumsum(sizes)[:-1])):
        write_part(folder / part_name(split, index), [piece[:1], piece[1:]])
    return tokens


def test_a_part_has_the_layout_of_llm_c(tmp_path: Path) -> None:
    write(tmp_path, [5])
    raw = (tmp_path / "train-00000.bin").read_bytes()
    assert np.frombuffer(raw[:1024], "<i4").tolist() == [20240520, 1, 5] + [0] * 253
    assert np.frombuffer(raw[1024:], "<u2").tolist() == stream(5).tolist()


def test_parts_read_as_one_stream(tmp_path: Path) -> None:
    tokens = write(tmp_path, [7, 1, 0, 30, 3])
    write(tmp_path, [9], split="validation")
    shards = TokenShards(tmp_path, "train")
    assert len(shards) == 41
    for start in range(42):
        for count in range(42 - start):
            np.testing.assert_array_equal(shards.read(start, count), tokens[start : start + count])
    np.testing.assert_array_equal(
        shards.windows([0, 6, 36], 5), [tokens[0:5], tokens[6:11], tokens[36:41]]
    )
    assert shards.windows([0], 5).dtype == np.uint16


def test_reading_inside_a_part_copies_nothing(tmp_path: Path) -> None:
    write(tmp_path, [7, 30])
    assert TokenShards(tmp_path, "train").read(8, 20).base is not None


def test_reading_outside_the_stream_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [7])
    with pytest.raises(IndexError, match="stream of 7"):
        TokenShards(tmp_path, "train").read(5, 3)


def test_counts_and_a_token_outside_the_vocabulary(tmp_path: Path) -> None:
    write_part(tmp_path / "train-00000.bin", [np.array([3, 1, 3], np.uint16)])
    write_part(tmp_path / "train-00001.bin", [np.array([0], np.uint16)])
    shards = TokenShards(tmp_path, "train")
    assert shards.counts(5).tolist() == [1, 1, 0, 2, 0]
    with pytest.raises(UserError, match="token 3, but the vocabulary has 3"):
        shards.counts(3)


def test_damage_is_named(tmp_path: Path) -> None:
    write(tmp_path, [7])
    path = tmp_path / "train-00000.bin"
    whole = path.read_bytes()
    for damaged, message in (
        (whole[:-3], "promises 7 tokens, the file holds 5.5"),
        (whole + b"\0\0", "promises 7 tokens, the file holds 8"),
        (whole[:500], "not a token shard"),
        (b"\0" * 4 + whole[4:], "not a token shard"),
        (b"", "not a token shard"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=message):
            open_part(path)


def test_missing_and_empty_shards_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no token shards train-\*.bin"):
        TokenShards(tmp_path, "train")
    write_part(tmp_path / "train-00000.bin", [])
    with pytest.raises(UserError, match="hold no tokens"):
        TokenShards(tmp_path, "train")


def test_a_failed_write_leaves_the_old_part_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, [7])

    def failing():  # type: ignore[no-untyped-def]
        yield stream(3)
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_part(tmp_path / "train-00000.bin", failing())
    assert [path.name for path in tmp_path.iterdir()] == ["train-00000.bin"]
    assert len(TokenShards(tmp_path, "train")) == 7
