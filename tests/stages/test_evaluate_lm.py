from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deeploop.errors import UserError
from deeploop.evaluation.config import PAPER_TASKS
from deeploop.evaluation.sources import SAMPLES
from deeploop.stage import Draft, Input, Job
from stages import evaluate_lm, fetch_tasks
from stages.evaluate_lm import EvaluateLMSection
from tests.evaluation.models import make_model


class Plan:
    """Trainings of two backbones, as the plan holds them."""

    suite = "test"

    def __init__(self, root: Path, fetched: bool = False) -> None:
        self.root = root
        self.drafts = {
            "train_lm": [
                Draft(
                    name=f"{backbone}-{scaling}-r{loops}-s{seed}",
                    params={},
                    groups=("table1",) if seed == 0 else ("p_sweep",),
                    cell={"backbone": backbone, "scaling": scaling, "loops": loops, "seed": seed},
                )
                for backbone in ("small", "medium")
                for scaling in ("base", "deeploop")
                for loops in (1, 7)
                for seed in (0, 1)
            ],
            "fetch_tasks": [Draft(name=task, params={}) for task in PAPER_TASKS if fetched],
        }

    def of(self, stage: str, group: str | None = None) -> list[Draft]:
        return [d for d in self.drafts[stage] if group is None or group in d.groups]

    def shared(self, kind: str, name: str) -> Mapping[str, Any]:
        raise KeyError((kind, name))


TABLES = {
    "table2": {"backbone": "medium"},
    "table4": {"backbone": "small", "loops": [1, 3, 5]},
    "both": {"loops": 1},
}


def _expand(plan: Plan, **section: Any) -> dict[str, Draft]:
    settings = EvaluateLMSection(**{"source": "samples", "tables": TABLES, **section})
    return {draft.name: draft for draft in evaluate_lm.expand(settings, plan)}


def test_each_training_of_a_table_is_evaluated_once_under_its_name(tmp_path: Path) -> None:
    drafts = _expand(Plan(tmp_path))
    assert list(drafts) == [
        "small-base-r1-s0",
        "small-deeploop-r1-s0",
        "medium-base-r1-s0",
        "medium-base-r7-s0",
        "medium-deeploop-r1-s0",
        "medium-deeploop-r7-s0",
    ]
    assert drafts["medium-base-r7-s0"].groups == ("table2",)
    assert drafts["small-base-r1-s0"].groups == ("table4", "both")
    assert drafts["small-base-r1-s0"].inputs == (("train_lm", "small-base-r1-s0"),)
    assert drafts["small-base-r1-s0"].cell["backbone"] == "small"


def test_execution_and_the_place_of_a_mirror_are_no_identity(tmp_path: Path) -> None:
    for name in ("here", "there"):
        shutil.copytree(SAMPLES, tmp_path / name)
    plain = _expand(Plan(tmp_path), source="mirror", mirror="here")
    moved = _expand(Plan(tmp_path), source="mirror", mirror="there", gpus=4, gpu_hours=1)
    name = "small-base-r1-s0"
    assert plain[name].params == moved[name].params
    assert moved[name].execution["processes"] == 4
    assert moved[name].resources.gpus == 4
    assert "here/piqa/validation.jsonl" in plain[name].files
    assert len(plain[name].files) == 16


def test_official_data_comes_from_its_own_stage(tmp_path: Path) -> None:
    drafts = _expand(Plan(tmp_path, fetched=True), source="hub", tasks=["piqa", "sciq"])
    assert drafts["small-base-r1-s0"].inputs[1:] == (
        ("fetch_tasks", "piqa"),
        ("fetch_tasks", "sciq"),
    )
    with pytest.raises(UserError, match=r"source: hub needs .*piqa.* in the suite's `fetch_tasks`"):
        _expand(Plan(tmp_path), source="hub")
    section = fetch_tasks.FetchTasksSection(tasks=("piqa",))
    (draft,) = fetch_tasks.expand(section, Plan(tmp_path))
    assert draft.resources.network
    assert draft.params["revision"] == "142f6d7367fd9877f0fb3b5734ea6a545f54cdd1"


def test_mistakes_in_the_plan_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tables\.t: no training of group 'tabel1' fits"):
        _expand(Plan(tmp_path), tables={"t": {"of": "tabel1"}})
    with pytest.raises(UserError, match=r"task piqua: .* did you mean 'piqa'"):
        shutil.copytree(SAMPLES, tmp_path / "mirror")
        _expand(Plan(tmp_path), source="mirror", mirror="mirror", tasks=["piqua"])
    with pytest.raises(ValueError, match="`mirror` names a folder"):
        _expand(Plan(tmp_path), source="mirror")


@pytest.mark.parametrize("source", ["samples", "mirror", "hub"])
def test_a_run_gives_the_same_numbers_from_any_source(tmp_path: Path, source: str) -> None:
    training = tmp_path / "training"
    make_model(training)
    (training / "metrics.json").write_text('{"outcome": "trained"}')
    options = {"mirror": "mirror"} if source == "mirror" else {}
    shutil.copytree(SAMPLES, tmp_path / "mirror")
    plan = Plan(tmp_path, fetched=source == "hub")
    settings = {"source": source, "tasks": ["piqa", "winogrande"], "precision": "fp32", **options}
    draft = _expand(plan, limit=5, **settings)["small-base-r1-s0"]
    job = Job(
        suite="test",
        stage="evaluate_lm",
        run=draft.name,
        params=json.loads(json.dumps(draft.params)),
        inputs=(
            Input("train_lm", draft.name, training),
            *(Input(stage, run, tmp_path / "mirror" / run) for stage, run in draft.inputs[1:]),
        ),
        files=tuple(tmp_path / name for name in draft.files),
        folder=tmp_path / "outputs",
        work=tmp_path / "work",
        execution=draft.execution,
        telemetry=tmp_path / "telemetry.jsonl",
    )
    evaluate_lm.run(job)
    metrics = json.loads((job.folder / "metrics.json").read_text())
    assert metrics["source"] == source
    assert metrics["training_outcome"] == "trained"
    assert metrics["shots"]["1"]["piqa"]["n"] == 5
    assert sorted(path.name for path in job.folder.iterdir()) == ["metrics.json", "samples.parquet"]
