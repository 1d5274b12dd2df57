from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.text.build import build_tokens
from deeploop.text.config import Corpus, Hub
from deeploop.text.fetch import fetch_text, fetched_files
from tests.text import hub_server
from tests.text.hub_server import COMMIT, REPO

WANTED = "sample/100BT/*.parquet"
CARD = """---
license: odc-by
configs:
- config_name: default
  data_files:
  - {split: train, path: data/*/*}
- config_name: sample-100BT
  data_files:
  - {split: test, path: nothing/*}
  - {split: train, path: sample/100BT/*}
- {config_name: listed, data_files: {train: [sample/100BT/001*, sample/100BT/000*]}}
- {config_name: named, data_files: sample/100BT/004_00000.parquet}
- {config_name: held-out, data_files: [{split: test, path: sample/*}]}
---
# Texts
"""


def rows(index: int) -> dict[str, list[Any]]:
    random = np.random.default_rng(index)
    texts = [" ".join(random.choice(["loop", "deep", "é"], size=50)) for _ in range(20)]
    counts = [len(text.encode()) for text in texts]  # of byte tokens
    return {"text": texts, "id": [f"{index}-{i}" for i in range(20)], "token_count": counts}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[hub_server.Hub]:
    """A data set of five Parquet files of 20 documents, and more than is wanted."""
    folder = tmp_path / "tree" / "sample" / "100BT"
    folder.mkdir(parents=True)
    for index in range(5):
        parquet.write_table(pa.table(rows(index)), folder / f"{index:03d}_00000.parquet")
    (tmp_path / "tree" / "README.md").write_text(CARD)
    (tmp_path / "tree" / "sample" / "10BT").mkdir()
    (tmp_path / "tree" / "sample" / "10BT" / "000_00000.parquet").write_bytes(b"not wanted")
    with hub_server.serve(tmp_path / "tree") as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        yield served


def rule(**changes: Any) -> dict[str, Any]:
    settings = {"repo": REPO, "revision": COMMIT, "files": [WANTED]} | changes
    return Hub.model_validate(settings).model_dump(mode="json")


def fetch(root: Path, params: Mapping[str, Any], **more: Any) -> list[dict[str, Any]]:
    for name in ("out", "work"):
        (root / name).mkdir(parents=True, exist_ok=True)
    fetch_text(params, root / "out", root / "work", **more)
    files: list[dict[str, Any]] = json.loads((root / "out" / "files.json").read_text())["files"]
    return files


def test_the_files_of_a_rule_are_fetched_in_name_order_with_sizes_and_hashes(
    tmp_path: Path, hub: hub_server.Hub
) -> None:
    listed = fetch(tmp_path, rule())
    names = [f"sample/100BT/{index:03d}_00000.parquet" for index in range(5)]
    assert [file["path"] for file in listed] == names
    for file, path in zip(listed, fetched_files(tmp_path / "out"), strict=True):
        content = (hub.tree / file["path"]).read_bytes()
        assert path.read_bytes() == content
        assert file["size"] == len(content) and file["sha256"] == sha256(content).hexdigest()
    assert [name for name, _ in hub.requests] == names


@pytest.mark.parametrize(
    ("name", "numbers"), [("sample-100BT", range(5)), ("listed", [0, 1]), ("named", [4])]
)
def test_a_configuration_is_the_files_that_the_card_names(
    tmp_path: Path, hub: hub_server.Hub, name: str, numbers: Sequence[int]
) -> None:
    listed = fetch(tmp_path, rule(files=[], configuration=name))
    paths = [f"sample/100BT/{number:03d}_00000.parquet" for number in numbers]
    assert [file["path"] for file in listed] == paths
    assert [name for name, _ in hub.requests] == ["README.md", *paths]


@pytest.mark.parametrize(
    "card", ["# Texts", "---\nconfigs: [: ]\n---\n", "---\nconfigs: [a]\n---\n"]
)
def test_a_card_without_configurations_is_one_line(
    tmp_path: Path, hub: hub_server.Hub, card: str
) -> None:
    (hub.tree / "README.md").write_text(card)
    with pytest.raises(UserError, match=r"README\.md(: its YAML| has no conf)") as caught:
        fetch(tmp_path, rule(files=[], configuration="sample-100BT"))
    assert "\n" not in str(caught.value)


def test_no_more_files_are_fetched_than_hold_the_tokens(
    tmp_path: Path, hub: hub_server.Hub
) -> None:
    with_marks = [sum(rows(index)["token_count"]) + 20 for index in range(5)]
    assert len(fetch(tmp_path / "a", rule(max_tokens=sum(with_marks[:3])))) == 3
    listed = fetch(tmp_path / "b", rule(max_tokens=sum(with_marks[:3]) + 1))
    assert len(listed) == 4
    assert [file["tokens"] + file["documents"] for file in listed] == with_marks[:4]


def test_a_small_file_is_checked_by_its_git_hash(tmp_path: Path, hub: hub_server.Hub) -> None:
    [listed] = fetch(tmp_path, rule(files=["README.md"]))
    digest = sha256(CARD.encode()).hexdigest()
    assert listed == {"path": "README.md", "size": len(CARD), "sha256": digest}


def test_fetched_text_becomes_the_same_tokens_as_local_files(
    tmp_path: Path, hub: hub_server.Hub
) -> None:
    fetch(tmp_path, rule())
    settings = {"tokenizer": "bytes", "validation_tokens": 500}
    built = []
    for source in (
        {"kind": "fetched", "run": "x", "id": "id"},
        {"kind": "files", "paths": [f"tree/{WANTED}"], "id": "id"},
    ):
        corpus = Corpus.model_validate(settings | {"source": source})
        params, names = corpus.resolve(tmp_path, "x")
        files = [tmp_path / name for name in names] or fetched_files(tmp_path / "out")
        folder = tmp_path / str(source["kind"])
        (folder / "work").mkdir(parents=True)
        built.append(build_tokens(params, files, folder, folder / "work", {}))
    assert built[0] == built[1]


def test_a_killed_download_goes_on_where_it_was(tmp_path: Path, hub: hub_server.Hub) -> None:
    second = hub.tree / "sample/100BT/001_00000.parquet"
    texts = [np.random.default_rng(i).bytes(2000).hex() for i in range(40)]
    parquet.write_table(pa.table({"text": texts}), second)
    code = (
        "from huggingface_hub import constants; constants.DOWNLOAD_CHUNK_SIZE = 4096;"
        "import json, sys; from pathlib import Path; from deeploop.text.fetch import fetch_text;"
        "root = Path(sys.argv[1]);"
        "fetch_text(json.loads(sys.argv[2]), root / 'out', root / 'work',"
        " report=lambda _: print('file', flush=True) or sys.stdin.readline())"
    )
    for name in ("out", "work"):
        (tmp_path / name).mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), json.dumps(rule())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        text=True,
    )
    assert process.stdin and process.stdout
    assert process.stdout.readline() == "file\n"
    hub.cut_after = 50_000
    process.stdin.write("\n")
    process.stdin.flush()
    partial = tmp_path / "work/sample/100BT/001_00000.parquet.partial"
    wait_for(lambda: partial.exists() and partial.stat().st_size >= 8192)
    process.kill()
    process.wait()
    came = partial.stat().st_size
    assert 8192 <= came <= 50_000 < second.stat().st_size
    before = len(hub.requests)
    listed = fetch(tmp_path, rule())
    assert hub.requests[before] == ("sample/100BT/001_00000.parquet", f"bytes={came}-")
    assert len(hub.requests) == before + 4
    assert listed[1]["sha256"] == sha256(second.read_bytes()).hexdigest()


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_part_that_came_is_asked_for_from_its_end(tmp_path: Path, hub: hub_server.Hub) -> None:
    name = "sample/100BT/000_00000.parquet"
    partial = tmp_path / "work" / f"{name}.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes((hub.tree / name).read_bytes()[:700])
    fetch(tmp_path, rule(files=[name]))
    assert hub.requests == [(name, "bytes=700-")]
    assert not partial.exists()


def test_a_stop_between_bytes_keeps_what_has_come(tmp_path: Path, hub: hub_server.Hub) -> None:
    with pytest.raises(Interrupted):
        fetch(tmp_path, rule(), stop=lambda: len(hub.requests) == 2)
    assert (tmp_path / "work/sample/100BT/000_00000.parquet").exists()
    assert not (tmp_path / "out" / "files.json").exists()
    fetch(tmp_path, rule())
    assert [name for name, _ in hub.requests].count("sample/100BT/000_00000.parquet") == 1


def test_damage_on_the_way_is_named_and_repaired(tmp_path: Path, hub: hub_server.Hub) -> None:
    name = "sample/100BT/000_00000.parquet"
    partial = tmp_path / "work" / f"{name}.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"\0" * 700)
    with pytest.raises(BuildError, match=r"000_00000\.parquet came damaged"):
        fetch(tmp_path, rule(files=[name]))
    partial.write_bytes(b"\0" * 10**6)  # more than there is
    assert len(fetch(tmp_path, rule(files=[name]))) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_finished_files_are_kept(
    tmp_path: Path, hub: hub_server.Hub
) -> None:
    full = tmp_path / "work/sample/100BT/001_00000.parquet.partial"
    full.parent.mkdir(parents=True)
    full.symlink_to("/dev/full")
    with pytest.raises(BuildError, match=r"cannot fetch .*: No space left on device"):
        fetch(tmp_path, rule())
    assert (tmp_path / "work/sample/100BT/000_00000.parquet").exists()
    full.unlink()
    assert len(fetch(tmp_path, rule())) == 5
    assert [name for name, _ in hub.requests].count("sample/100BT/000_00000.parquet") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"revision": "f" * 40}, f"{REPO} has no revision f"),
        ({"repo": "someone/else"}, "the hub has no data set someone/else"),
        ({"files": ["sample/100BT/*.jsonl"]}, r"no file matches 'sample/100BT/\*\.jsonl'"),
        ({"files": ["sample/50BT/*"]}, "no such file or folder"),
        (
            {"files": [], "configuration": "sample-50BT"},
            r"README\.md has no configuration 'sample-50BT' \(it has: default, sample-100BT, listed",
        ),
        ({"files": [], "configuration": "held-out"}, "names no train files for configuration"),
        ({"files": [], "configuration": "default"}, "has no such file or folder"),
        ({"max_tokens": 10, "token_count": "tokens"}, "has no column 'tokens', only: text, id"),
        ({"files": ["README.md"], "max_tokens": 10}, "README.md is damaged or no Parquet file"),
    ],
)
def test_a_rule_that_does_not_fit_is_one_line(
    tmp_path: Path, hub: hub_server.Hub, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        fetch(tmp_path, rule(**change))
    assert "\n" not in str(caught.value)


def test_no_network_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BuildError, match="cannot reach the hub for someone/texts@0123") as caught:
        fetch(tmp_path, rule())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"revision": "main"},
        {"repo": "texts"},
        {"files": []},
        {"configuration": "x"},
        {"max_tokens": 0},
        {"split": "train"},
    ],
)
def test_wrong_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        rule(**change)
