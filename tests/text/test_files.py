from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from deeploop.errors import UserError
from deeploop.text.files import FileFormat, read_documents

TEXTS = ["first\r\nline", "", "naïve 👩‍👩‍👧", "NUL \0 in it", "last"]
IDS = [f"doc-{index}" for index in range(len(TEXTS))]
AUTO = FileFormat("auto", "text", None, None)
WITH_ID = FileFormat("auto", "text", "id", None)


def compress(raw: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(raw[:40]) + gzip.compress(raw[40:])  # two members
    if suffix == ".zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(raw)
        return bytes(sink.getvalue())
    return raw


def json_lines() -> bytes:
    records = [{"id": i, "text": t} for i, t in zip(IDS, TEXTS, strict=True)]
    return "\n".join(map(json.dumps, records)).encode() + b"\n\n"


@pytest.mark.parametrize("name", ["a.jsonl", "a.json.gz", "a.ndjson.zst", "a.parquet"])
def test_every_format_gives_the_same_documents(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        parquet.write_table(pa.table({"id": IDS, "x": TEXTS, "text": TEXTS}), path)
    else:
        path.write_bytes(compress(json_lines(), path.suffix))
    assert list(read_documents(path, WITH_ID)) == list(zip(IDS, TEXTS, strict=True))
    assert list(read_documents(path, AUTO)) == list(zip(TEXTS, TEXTS, strict=True))


def test_a_lone_surrogate_in_json_is_kept_for_the_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "\\ud800"}\n')
    assert list(read_documents(path, AUTO)) == [("\ud800", "\ud800")]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_plain_text_is_one_document_or_cut_at_a_separator(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    text = "Alpha\r\nbeta\n\nGamma é\n\n\n\nDelta\n\n" * 3
    path.write_bytes(compress(text.encode(), suffix))
    assert list(read_documents(path, AUTO)) == [(text, text)]
    cut = FileFormat("auto", "text", None, "\n\n")
    assert [text for _, text in read_documents(path, cut)] == [
        "Alpha\r\nbeta",
        "Gamma é",
        "Delta",
    ] * 3


def test_a_separator_across_blocks_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deeploop.text.files.TEXT_BLOCK", 3)
    path = tmp_path / "a.txt"
    path.write_text("one<cut>two<cut>three")
    cut = FileFormat("text", "text", None, "<cut>")
    assert [text for _, text in read_documents(path, cut)] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("name", "content", "layout", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text": 3}\n', AUTO, "line 2: 'text' is int, not text"),
        ("a.jsonl", b'{"text": "x"}\n{"txt": "y"}\n', AUTO, "line 2 has no key 'text'"),
        ("a.jsonl", b'{"text": "x"}\n', WITH_ID, "line 1 has no key 'id'"),
        ("a.jsonl", b'{"text": "x", "id": null}\n', WITH_ID, "line 1: 'id' is empty"),
        ("a.jsonl", b'{"text": "x"}\n{"text": \n', AUTO, "line 2 is not JSON"),
        ("a.jsonl", b'{"text": "\xff"}\n', AUTO, "line 1 is not UTF-8"),
        ("a.txt", b"caf\xe9 au lait", AUTO, "is not UTF-8"),
        ("a.txt", b"caf\xe9 au lait", FileFormat("auto", "", None, "\n"), "is not UTF-8"),
        ("a.jsonl.gz", b"not gzip at all", AUTO, "cannot read"),
        ("a.jsonl.zst", b"not zstd at all", AUTO, "cannot read"),
        ("a.parquet", b"PAR1 but nothing else", AUTO, "damaged or no Parquet file"),
        ("a.parquet", b"", AUTO, "damaged or no Parquet file"),
        ("a.csv", b"text\n", AUTO, "cannot tell the format"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(
    tmp_path: Path, name: str, content: bytes, layout: FileFormat, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        list(read_documents(path, layout))
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_faults_of_a_parquet_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["x", None], "n": [1, 2]}), path)
    with pytest.raises(UserError, match="row 2: 'text' is NoneType"):
        list(read_documents(path, AUTO))
    with pytest.raises(UserError, match="has no column 'body', only: text, n"):
        list(read_documents(path, FileFormat("auto", "body", None, None)))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:4] + b"\xff" * 60 + whole[64:]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"a\.parquet"):
            list(read_documents(path, AUTO))


def test_memory_does_not_grow_with_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    random = np.random.default_rng(0)
    texts = [random.bytes(2000).hex() for _ in range(6000)]
    parquet.write_table(pa.table({"text": texts}), path, row_group_size=100)
    del texts
    begun = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - begun for _ in read_documents(path, AUTO)]
    assert len(held) == 6000
    assert max(held) < path.stat().st_size / 4


def test_truncated_compression_and_missing_files_are_named(tmp_path: Path) -> None:
    for suffix in (".gz", ".zst"):
        path = tmp_path / f"a.jsonl{suffix}"
        whole = compress(json_lines() * 50, suffix)
        path.write_bytes(whole[:-9])
        with pytest.raises(UserError, match=r"a\.jsonl"):
            list(read_documents(path, AUTO))
    with pytest.raises(UserError, match=r"cannot read .*gone\.jsonl: No such file"):
        list(read_documents(tmp_path / "gone.jsonl", AUTO))
