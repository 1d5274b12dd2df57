from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from deeploop.cli import main
from deeploop.text.gpt2 import Gpt2Tokenizer
from deeploop.text.shards import TokenShards

TEXTS = ["One document.", "", "Another\r\none, with <|endoftext|> in it.", "A third 🤖."]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for index in range(2):
        table = pa.table({"text": TEXTS[2 * index :][:2], "id": ["a", "b"]})
        parquet.write_table(table, f"{index}.parquet")
    return tmp_path


def build(*more: str) -> int:
    return main(["data", "build", "--source", "*.parquet", "--out", "out", "--workers", "1", *more])


def test_parts_in_name_order_are_the_documents_in_order(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build("--tokenizer", "gpt2") == 0
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "manifest.json",
        "train-00000.bin",
    ]
    tokenizer = Gpt2Tokenizer()
    expected = [id for ids in tokenizer.encode(TEXTS) for id in (tokenizer.end_of_text, *ids)]
    train = TokenShards(Path("out"), "train")
    assert train.read(0, len(train)).tolist() == expected
    assert f"train: {len(expected)} tokens, 4 documents, 1 parts" in capsys.readouterr().out
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert [file["name"] for file in manifest["source"]["files"]] == ["0.parquet", "1.parquet"]
    assert manifest["tokenizer"]["files"]["vocab.bpe"]["sha256"].startswith("1ce1664773c5")


def test_the_fast_backend_writes_the_same_bytes(here: Path) -> None:
    pytest.importorskip("gigatoken")
    assert build() == 0
    assert (
        main(["data", "build", "--source", "*.parquet", "--out", "fast", "--backend", "fast"]) == 0
    )
    for name in ("train-00000.bin", "manifest.json"):
        assert Path("out", name).read_bytes() == Path("fast", name).read_bytes()


def test_a_finished_build_is_kept_until_its_source_changes(here: Path) -> None:
    build("--tokenizer", "bytes")
    part = Path("out/train-00000.bin")
    before = part.stat().st_mtime_ns
    assert build("--tokenizer", "bytes") == 0
    assert part.stat().st_mtime_ns == before
    part.write_bytes(part.read_bytes()[:-2])
    assert build("--tokenizer", "bytes") == 0
    assert part.stat().st_size == 1024 + 2 * (sum(len(t.encode()) for t in TEXTS) + 4)
    table = pa.table({"text": ["other"], "id": ["a"]})
    parquet.write_table(table, "0.parquet")
    assert build("--tokenizer", "bytes") == 0
    assert json.loads(Path("out/manifest.json").read_text())["splits"]["train"]["documents"] == 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--source", "no*.jsonl"], "no file matches 'no*.jsonl'"),
        (["--text", "body"], "has no column 'body', only: text, id"),
        (["--workers", "0"], "execution.workers: Input should be greater than 0"),
        (["--validation-tokens", "1e9"], "leaves nothing to train on"),
        (["--out", "."], ". is not empty and holds no build of ours"),
        (["--tokenizer-files", "."], "is not GPT-2's vocab.bpe"),
    ],
)
def test_a_mistake_is_one_line(
    here: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(*more) == 2
    [line] = [x for x in capsys.readouterr().err.splitlines() if x.startswith("deeploop:")]
    assert message in line
    assert not list(Path("out").glob("*.bin"))


def test_inspect_shows_what_a_build_made_and_fails_when_it_is_damaged(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build("--tokenizer", "bytes", "--id", "id")
    assert main(["data", "inspect", "out"]) == 0
    assert "4 documents, 0.00% of them duplicates" in capsys.readouterr().out
    part = Path("out/train-00000.bin")
    part.write_bytes(part.read_bytes()[:-2])
    assert main(["data", "inspect", "out"]) == 1
    assert "train-00000.bin is damaged" in capsys.readouterr().out
    assert main(["data", "inspect", "nowhere"]) == 2
