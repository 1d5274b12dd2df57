from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from deeploop.stage import Draft, Job, Planned
from stages.fetch_text import STAGE, Fetches, run
from tests.text import hub_server

RULE = {"repo": hub_server.REPO, "revision": hub_server.COMMIT, "files": ["sample/*.txt"]}


def drafts(section: dict[str, Any]) -> list[Draft]:
    return list(STAGE.expand(Fetches.model_validate(section), cast(Planned, None)))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    tree = tmp_path / "tree"
    (tree / "sample").mkdir(parents=True)
    for name in ("b", "a"):
        (tree / "sample" / f"{name}.txt").write_text(name)
    with hub_server.serve(tree) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield tree


def test_the_rule_is_identity_and_runs_where_there_is_network() -> None:
    [draft] = drafts({"edu": RULE | {"max_tokens": 50e9}})
    assert draft.name == "edu" and draft.resources.network
    assert draft.params == {
        **RULE,
        "configuration": None,
        "max_tokens": 50_000_000_000,
        "token_count": "token_count",
    }


def test_the_stage_fetches_and_logs(tmp_path: Path, tree: Path) -> None:
    [draft] = drafts({"edu": RULE})
    for name in ("folder", "work"):
        (tmp_path / name).mkdir()
    job = Job(
        suite="paper",
        stage="fetch_text",
        run="edu",
        params=draft.params,
        inputs=(),
        files=(),
        folder=tmp_path / "folder",
        work=tmp_path / "work",
        execution={},
        telemetry=tmp_path / "telemetry.jsonl",
    )
    run(job)
    listed = json.loads((job.folder / "files.json").read_text())["files"]
    assert [file["path"] for file in listed] == ["sample/a.txt", "sample/b.txt"]
    assert (job.folder / "sample" / "a.txt").read_text() == "a"
    assert len(job.telemetry.read_text().splitlines()) == 2
