from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.text import corpora
from deeploop.text.build import build_tokens
from deeploop.text.config import Corpus
from deeploop.text.shards import TokenShards, open_part
from deeploop.text.tokenizers import ByteTokenizer
from deeploop.text.units import document_hash

FILES = 6


@pytest.fixture(autouse=True)
def a_file_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "UNIT_BYTES", 1)


def texts(seed: int = 0) -> list[list[str]]:
    """Documents of each file; some empty, some long."""
    random = np.random.default_rng(seed)
    words = ["loop", "deep", "é", "residual", "\n", "norm,"]
    draw = lambda: " ".join(random.choice(words, size=random.integers(0, 60)))  # noqa: E731
    return [[draw() for _ in range(40)] for _ in range(FILES)]


def write_corpus(folder: Path, documents: list[list[str]]) -> None:
    folder.mkdir(exist_ok=True)
    for index, file in enumerate(documents):
        lines = [json.dumps({"id": f"{index}/{i}", "text": t}) for i, t in enumerate(file)]
        (folder / f"{index}.jsonl").write_text("\n".join(lines))


def corpus(**changes: Any) -> Corpus:
    source = {"kind": "files", "paths": ["in/*.jsonl"], "id": "id"}
    return Corpus.model_validate(
        {"source": source, "tokenizer": "bytes", "validation_tokens": 2000} | changes
    )


def build(
    root: Path,
    settings: Corpus,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[Mapping[str, Any]], None] = lambda _: None,
    workers: int = 1,
    out: str = "out",
) -> dict[str, Any]:
    folder, work = root / out, root / f"{out}.work"
    folder.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    params, files = settings.resolve(root, "tokenize.x")
    paths = [root / file for file in files]
    how = {"workers": workers}
    return build_tokens(json.loads(json.dumps(params)), paths, folder, work, how, stop, report)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_tokens_are_those_of_the_documents_in_order(tmp_path: Path) -> None:
    documents = texts()
    write_corpus(tmp_path / "in", documents)
    manifest = build(tmp_path, corpus())
    flat = [(f"{i}/{j}", t) for i, file in enumerate(documents) for j, t in enumerate(file)]
    ids = [document_hash(identity) for identity, _ in flat]
    train = TokenShards(tmp_path / "out", "train")
    validation = TokenShards(tmp_path / "out", "validation")
    kept_out = manifest["splits"]["validation"]["documents"]
    order = sorted(range(len(flat)), key=lambda k: ids[k])
    held_out = order[:kept_out]
    expected = "".join("\0" + flat[k][1] for k in range(len(flat)) if k not in held_out)
    assert ByteTokenizer().decode(train.read(0, len(train))) == expected
    expected = "".join("\0" + flat[k][1] for k in held_out)
    assert ByteTokenizer().decode(validation.read(0, len(validation))) == expected
    assert 2000 <= len(validation) < 2400


def test_the_manifest_describes_the_parts_and_names_no_source(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    manifest = build(tmp_path, corpus())
    assert json.loads((tmp_path / "out" / "manifest.json").read_text()) == manifest
    assert manifest["tokenizer"] == {
        "name": "bytes",
        "vocab_size": 256,
        "end_of_text": 0,
        "files": {},
    }
    for split, said in manifest["splits"].items():
        assert said["tokens"] == len(TokenShards(tmp_path / "out", split))
        for part in said["parts"]:
            assert part["tokens"] == len(open_part(tmp_path / "out" / part["file"]))
    assert sum(said["documents"] for said in manifest["splits"].values()) == FILES * 40
    names = [part["file"] for said in manifest["splits"].values() for part in said["parts"]]
    assert sorted([*names, "manifest.json"]) == sorted(contents(tmp_path / "out"))


def test_reformatted_text_gives_the_same_bytes(tmp_path: Path) -> None:
    documents = texts()
    write_corpus(tmp_path / "in", documents)
    build(tmp_path, corpus(), out="before")
    for index, file in enumerate(documents):
        records = [
            json.dumps({"extra": 1, "text": t, "id": f"{index}/{i}"}, ensure_ascii=False) + "\n\n"
            for i, t in enumerate(file)
        ]
        (tmp_path / "in" / f"{index}.jsonl").write_text("".join(records))
    build(tmp_path, corpus(), out="after")
    assert contents(tmp_path / "before") == contents(tmp_path / "after")


def test_bytes_do_not_depend_on_workers(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    build(tmp_path, corpus(), out="one")
    build(tmp_path, corpus(), workers=2, out="two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_validation_does_not_depend_on_files_or_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path / "in", texts())
    build(tmp_path, corpus(), out="apart")
    lines = [(tmp_path / "in" / f"{k}.jsonl").read_text() for k in range(FILES)]
    (tmp_path / "joined").mkdir()
    (tmp_path / "joined" / "all.jsonl").write_text("\n".join(reversed(lines)))
    source = {"kind": "files", "paths": ["joined/*"], "id": "id"}
    build(tmp_path, corpus(source=source), out="joint")
    monkeypatch.setattr(corpora, "UNIT_BYTES", 2**20)
    build(tmp_path, corpus(), out="grouped")
    name = "validation-00000.bin"
    assert (tmp_path / "apart" / name).read_bytes() == (tmp_path / "joint" / name).read_bytes()
    assert (tmp_path / "apart" / name).read_bytes() == (tmp_path / "grouped" / name).read_bytes()


def test_a_long_unit_becomes_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(tmp_path / "in", texts())
    whole = build(tmp_path, corpus(), out="whole")
    monkeypatch.setattr("deeploop.text.assembly.COPY_TOKENS", 700)
    monkeypatch.setattr("deeploop.text.assembly.PART_TOKENS", 2500)
    split = build(tmp_path, corpus(), out="split")
    assert len(split["splits"]["train"]["parts"]) > len(whole["splits"]["train"]["parts"])
    assert max(part["tokens"] for part in split["splits"]["train"]["parts"]) <= 2500
    streams = [TokenShards(tmp_path / out, "train") for out in ("whole", "split")]
    np.testing.assert_array_equal(*(stream.read(0, len(stream)) for stream in streams))


def test_max_tokens_takes_the_first_documents_and_encodes_no_more_files(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    whole = build(tmp_path, corpus())["splits"]
    total = sum(split["tokens"] for split in whole.values())
    for workers in (1, 2):
        seen: list[Mapping[str, Any]] = []
        settings = corpus(max_tokens=total // 3)
        cut = build(tmp_path, settings, report=seen.append, workers=workers, out=f"cut{workers}")
        held = sum(split["tokens"] for split in cut["splits"].values())
        assert total // 3 - 400 < held <= total // 3
        assert len(seen) == 3
    assert contents(tmp_path / "cut1") == contents(tmp_path / "cut2")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_build_goes_on_from_finished_units(tmp_path: Path, workers: int) -> None:
    write_corpus(tmp_path / "in", texts())
    build(tmp_path, corpus(), out="undisturbed")
    seen: list[Mapping[str, Any]] = []
    with pytest.raises(Interrupted):
        build(tmp_path, corpus(), lambda: len(seen) >= 2, seen.append, workers)
    finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "out.work").glob("*.json")}
    assert len(finished) == 2 if workers == 1 else len(finished) >= 2
    build(tmp_path, corpus(), workers=workers)
    assert all(path.stat().st_mtime_ns == then for path, then in finished.items())
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def encode_only(root: Path, settings: Corpus, workers: int = 1) -> None:
    """Leave a work folder in which all units are encoded and none is freed."""
    seen: list[Mapping[str, Any]] = []
    with pytest.raises(Interrupted):
        build(root, settings, lambda: len(seen) >= FILES, seen.append, workers)
    assert len(list((root / "out.work").glob("*.tokens"))) == FILES


def test_a_finished_unit_is_not_trusted_when_source_or_bytes_have_changed(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    build(tmp_path, corpus(), out="undisturbed")
    encode_only(tmp_path, corpus())
    tokens = tmp_path / "out.work" / "unit-00001.tokens"
    flipped = bytearray(tokens.read_bytes())
    flipped[10] ^= 1
    tokens.write_bytes(flipped)
    (tmp_path / "out.work" / "unit-00002.json").write_text('{"stamp": ')
    (tmp_path / "out.work" / "unit-00003.documents.npy").unlink()
    build(tmp_path, corpus())
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")
    write_corpus(tmp_path / "in", texts(seed=1))
    build(tmp_path, corpus())
    build(tmp_path, corpus(), out="fresh")
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def records(root: Path) -> dict[str, int]:
    """Return when each unit was encoded."""
    paths = (root / "out.work").glob("unit-0000?.json")
    return {path.stem: path.stat().st_mtime_ns for path in paths}


def stopped_after(root: Path, freed: int) -> dict[str, int]:
    """Stop a build when some units are freed, lose its output folder; return its records."""
    work = root / "out.work"
    left = lambda: len(list(work.glob("*.tokens")))  # noqa: E731
    begun = lambda: (work / "validation.parts.json").exists()  # noqa: E731
    with pytest.raises(Interrupted):
        build(root, corpus(), lambda: begun() and left() <= FILES - freed)
    for path in (root / "out").iterdir():
        path.unlink()
    return records(root)


def test_parts_outlive_a_stop_and_their_units_are_not_encoded_again(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    build(tmp_path, corpus(), out="undisturbed")
    encoded = stopped_after(tmp_path, freed=3)
    build(tmp_path, corpus())
    assert records(tmp_path) == encoded
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")
    assert not list((tmp_path / "out.work").glob("*.tokens"))


def test_a_damaged_part_costs_its_own_unit(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    build(tmp_path, corpus(), out="undisturbed")
    encoded = stopped_after(tmp_path, freed=3)
    [part] = (tmp_path / "out.work").glob("unit-00001.parts-*.bin")
    part.write_bytes(part.read_bytes()[:-2])
    build(tmp_path, corpus())
    again = {unit for unit, when in records(tmp_path).items() if encoded[unit] != when}
    assert again == {"unit-00001"}
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_parts_of_another_split_are_not_used(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    larger = corpus(validation_tokens=4000)
    build(tmp_path, larger, out="undisturbed")
    stopped_after(tmp_path, freed=3)
    build(tmp_path, larger)
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_the_disk_holds_the_tokens_once_and_one_unit_twice(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    held: list[int] = []

    def measure() -> bool:
        found = [p.stat() for name in ("out", "out.work") for p in (tmp_path / name).iterdir()]
        held.append(sum({stat.st_ino: stat.st_size for stat in found}.values()))
        return False

    manifest = build(tmp_path, corpus(), stop=measure)
    tokens = sum(split["tokens"] for split in manifest["splits"].values())
    measure()
    records_and_headers = 40 * FILES * 12 + 2500 * FILES
    largest_unit = 2 * max(part["tokens"] for part in manifest["splits"]["train"]["parts"])
    assert max(held) < 2 * tokens + largest_unit + 2 * 2400 + records_and_headers


def test_without_validation_all_is_training_in_order(tmp_path: Path) -> None:
    documents = texts()
    write_corpus(tmp_path / "in", documents)
    manifest = build(tmp_path, corpus(validation_tokens=0))
    assert list(manifest["splits"]) == ["train"]
    train = TokenShards(tmp_path / "out", "train")
    expected = "".join("\0" + text for file in documents for text in file)
    assert ByteTokenizer().decode(train.read(0, len(train))) == expected


BUILD_SCRIPT = """
import sys, time
from pathlib import Path
from deeploop.text import corpora, files
from deeploop.text.build import build_tokens
from deeploop.text.config import Corpus
corpora.UNIT_BYTES = 1
root = Path(sys.argv[1])
settings = Corpus.model_validate({
    "source": {"kind": "files", "paths": ["in/*.jsonl"], "id": "id"},
    "tokenizer": "bytes", "validation_tokens": 2000})
params, names = settings.resolve(root, "x")
build_tokens(params, [root / n for n in names], root / "out", root / "out.work", {},
             report=lambda _: (print("unit", flush=True), time.sleep(0.2)))
"""


def test_a_killed_build_goes_on_and_gives_the_same_bytes(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    build(tmp_path, corpus(), out="undisturbed")
    for name in ("out", "out.work"):
        (tmp_path / name).mkdir()
    (tmp_path / "script.py").write_text(BUILD_SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)],
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"unit\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    (tmp_path / "out" / "train-00000.bin.tmp").write_bytes(b"half")
    (tmp_path / "out" / "train-00099.bin").write_bytes(b"from another time")
    finished = len(list((tmp_path / "out.work").glob("*.json")))
    assert 1 <= finished < FILES
    build(tmp_path, corpus())
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", texts())
    for name in ("out", "out.work"):
        (tmp_path / name).mkdir()
    (tmp_path / "script.py").write_text(
        "if __name__ == '__main__':\n"
        + "".join(f"    {line}\n" for line in POOL_SCRIPT.strip().splitlines())
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdout is not None
    workers = [int(pid) for pid in process.stdout.readline().split()]
    process.kill()
    process.wait()
    assert len(workers) == 2
    deadline = time.monotonic() + 30
    while any(map(is_running, workers)):
        assert time.monotonic() < deadline, f"{workers} outlive their parent"
        time.sleep(0.05)


POOL_SCRIPT = """
import multiprocessing, sys, time
from pathlib import Path
from deeploop.text import corpora
from deeploop.text.build import build_tokens
from deeploop.text.config import Corpus
corpora.UNIT_BYTES = 1
root = Path(sys.argv[1])
settings = Corpus.model_validate({
    "source": {"kind": "files", "paths": ["in/*.jsonl"], "id": "id"},
    "tokenizer": "bytes", "validation_tokens": 2000})
params, names = settings.resolve(root, "x")
def report(_):
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    time.sleep(60)
build_tokens(params, [root / n for n in names], root / "out", root / "out.work",
             {"workers": 2}, report=report)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("workers", [1, 2])
def test_one_damaged_file_is_named_and_the_others_are_kept(tmp_path: Path, workers: int) -> None:
    write_corpus(tmp_path / "in", texts())
    (tmp_path / "in" / "3.jsonl").write_bytes(b'{"text": "x", "id": 1}\n\xff\n')
    with pytest.raises(UserError, match=r"3\.jsonl, line 2 is not UTF-8"):
        build(tmp_path, corpus(), workers=workers)
    assert not list((tmp_path / "out").iterdir())
    assert (tmp_path / "out.work" / "unit-00000.json").exists()


def test_an_empty_corpus_and_too_large_a_validation_split_are_named(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", [[]])
    with pytest.raises(UserError, match="the corpus is empty"):
        build(tmp_path, corpus())
    write_corpus(tmp_path / "in", [["short"] * 3])
    with pytest.raises(UserError, match=r"validation_tokens \(2000\) leaves nothing to train on"):
        build(tmp_path, corpus())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("file", ["unit-00002.{process}.tmp", "unit-00002.parts-00.bin.tmp"])
def test_a_full_disk_is_one_line_and_what_was_made_is_kept(tmp_path: Path, file: str) -> None:
    write_corpus(tmp_path / "in", texts())
    build(tmp_path, corpus(), out="undisturbed")
    full = tmp_path / "out.work" / file.format(process=os.getpid())

    def fill() -> bool:
        if not full.is_symlink():
            full.symlink_to("/dev/full")
        return False

    with pytest.raises(BuildError, match=r"cannot write .*out\.work: No space left on device"):
        build(tmp_path, corpus(), stop=fill)
    kept = records(tmp_path)
    assert {"unit-00000", "unit-00001"} <= set(kept)
    build(tmp_path, corpus())
    assert kept.items() <= records(tmp_path).items()
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_the_embedded_corpus_builds(tmp_path: Path) -> None:
    source = {"kind": "docstrings", "packages": ["networkx"]}
    manifest = build(tmp_path, corpus(source=source, validation_tokens=50_000))
    assert manifest["splits"]["train"]["tokens"] > 1_500_000
    assert 50_000 <= manifest["splits"]["validation"]["tokens"] < 70_000
