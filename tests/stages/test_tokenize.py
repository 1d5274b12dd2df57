from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from deeploop.errors import UserError
from deeploop.stage import Draft, Job, Planned
from stages.tokenize import STAGE, Corpora


@dataclass
class Project:
    """What `expand` asks of the plan."""

    root: Path = Path()


def drafts(section: dict[str, Any], root: Path = Path()) -> list[Draft]:
    return list(STAGE.expand(Corpora.model_validate(section), cast(Planned, Project(root))))


def test_each_corpus_is_a_run_whose_identity_holds_versions_and_no_execution() -> None:
    corpus = {
        "source": {"kind": "docstrings", "packages": ["networkx", "polars"]},
        "tokenizer": "bytes",
        "validation_tokens": 1000,
        "execution": {"workers": 3},
    }
    first, second = drafts({"a": corpus, "b": corpus | {"validation_tokens": 2000}})
    assert (first.name, second.name) == ("a", "b")
    assert first.params == {
        "source": {
            "kind": "docstrings",
            "packages": [["networkx", version("networkx")], ["polars", version("polars")]],
        },
        "tokenizer": "bytes",
        "validation_tokens": 1000,
        "max_tokens": None,
    }
    assert first.execution["workers"] == 3 and first.resources.cpus == 3


def test_files_are_listed_sorted_and_their_names_are_not_identity(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "sub.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder.txt").mkdir()
    source = {"kind": "files", "paths": ["*.txt", "a.*", str(tmp_path / "b.txt")]}
    [draft] = drafts({"mine": {"source": source, "validation_tokens": 1}}, tmp_path)
    assert draft.files == tuple(sorted([str(tmp_path / "b.txt"), "a.txt", "b.txt", "sub.txt"]))
    assert "paths" not in draft.params["source"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"kind": "files", "paths": ["nowhere/*.txt"]}, r"x\.source\.paths: no file"),
        ({"kind": "docstrings", "packages": ["no-such"]}, "no-such is not installed"),
        ({"kind": "shards", "train": ["n/*"], "validation": ["n/*"]}, r"x\.source\.train: no file"),
    ],
)
def test_what_is_not_there_is_named_while_planning(source: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        drafts({"x": {"source": source, "validation_tokens": 1}})


def test_fetched_text_is_an_input_and_its_run_is_not_identity() -> None:
    source = {"kind": "fetched", "run": "edu", "id": "id"}
    [draft] = drafts({"mine": {"source": source, "validation_tokens": 25e6, "max_tokens": 50e9}})
    assert draft.inputs == (("fetch_text", "edu"),) and draft.files == ()
    assert draft.params == {
        "source": {
            "kind": "fetched",
            "format": "auto",
            "text": "text",
            "id": "id",
            "separator": None,
        },
        "tokenizer": "gpt2",
        "validation_tokens": 25_000_000,
        "max_tokens": 50_000_000_000,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"validation_tokens": 0},
        {"tokenizer": "gpt3"},
        {"source": {"kind": "hubb"}},
        {"sauce": 1},
        {"source": {"kind": "files", "paths": []}},
        {"execution": {"workers": 0}},
    ],
)
def test_wrong_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        drafts({"x": {"source": {"kind": "docstrings"}, "validation_tokens": 1} | change})


def test_the_stage_builds_and_logs(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("one\n\ntwo\n\nthree")
    source = {"kind": "files", "paths": [str(text)], "separator": "\n\n"}
    corpus = {"source": source, "tokenizer": "bytes", "validation_tokens": 1}
    [draft] = drafts({"mine": corpus})
    for name in ("folder", "work"):
        (tmp_path / name).mkdir()
    job = Job(
        suite="smoke",
        stage="tokenize",
        run="mine",
        params=draft.params,
        inputs=(),
        files=tuple(map(Path, draft.files)),
        folder=tmp_path / "folder",
        work=tmp_path / "work",
        execution=draft.execution,
        telemetry=tmp_path / "telemetry.jsonl",
    )
    from stages.tokenize import run

    run(job)
    names = sorted(path.name for path in job.folder.iterdir())
    assert names == ["manifest.json", "train-00000.bin", "validation-00000.bin"]
    [line] = job.telemetry.read_text().splitlines()
    assert json.loads(line)["documents"] == 3
