from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from deeploop.errors import Interrupted, UserError
from deeploop.plan import load_plan
from deeploop.stage import Draft, Input, Job
from stages import build_arc, measure_alignment, tokenize, train_hrm, train_lm
from tests.reporting.synthetic import FakePlan

ROOT = Path(__file__).parents[2]


def job(root: Path, run: Any, inputs: tuple[Input, ...], **changes: Any) -> Job:
    return Job(
        suite="smoke",
        stage=run.stage,
        run=run.name,
        params=run.draft.params,
        inputs=inputs,
        files=(),
        folder=root / run.stage / "outputs",
        work=root / run.stage / "work",
        execution=run.draft.execution,
        telemetry=root / "telemetry.jsonl",
        **changes,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, tuple[Input, ...]]:
    """A looped model of the smoke suite, trained for its 30 steps."""
    root, plan = tmp_path_factory.mktemp("alignment"), load_plan(ROOT, "smoke")
    inputs: tuple[Input, ...] = ()
    for stage, module, name in (
        ("tokenize", tokenize, "docstrings"),
        ("train_lm", train_lm, "smoke-deeploop-r3-s0"),
    ):
        made = job(root, plan.get(stage, name), inputs)
        for folder in (made.folder, made.work):
            folder.mkdir(parents=True)
        module.run(made)
        inputs = (*inputs, Input(stage, name, made.folder))
    return plan.get("measure_alignment", "smoke-deeploop-r3-s0"), inputs


def test_start_snapshots_and_end_are_measured(
    trained: tuple[Any, tuple[Input, ...]], tmp_path: Path
) -> None:
    run, inputs = trained
    made = job(tmp_path, run, inputs)
    measure_alignment.run(made)
    first = (made.folder / "alignment.json").read_bytes()
    found = json.loads(first)
    assert [point["step"] for point in found["points"]] == [0, 10, 30]
    assert found["outcome"] in ("trained", "floor")
    losses = [point["loss"] for point in found["points"]]
    assert losses[0] > losses[1] > losses[2]
    for point in found["points"]:
        loop = point["modules"]["loop"]
        assert loop["rounds"] == 3
        assert loop["kappa"]["low"] <= loop["kappa"]["value"] <= loop["kappa"]["high"] <= 3
    assert found["points"][0]["modules"]["loop"]["kappa"]["value"] > 2.99

    # Interrupted after its first point, it goes on from there, to the same bytes.
    answers = iter([False, True])
    again = job(tmp_path / "again", run, inputs, stop=lambda: next(answers))
    with pytest.raises(Interrupted):
        measure_alignment.run(again)
    assert [path.name for path in again.work.iterdir()] == ["step-0.json"]
    assert not again.folder.exists()
    resumed = job(tmp_path / "again", run, inputs)
    measure_alignment.run(resumed)
    assert (resumed.folder / "alignment.json").read_bytes() == first


def training(loops: int, rule: str = "base", seed: int = 0) -> Draft:
    return Draft(
        name=f"tiny-{rule}-r{loops}-s{seed}",
        params={"training": {"seed": seed}},
        inputs=(("tokenize", "text"),),
        groups=("table1",),
        cell={"backbone": "tiny", "scaling": rule, "loops": loops, "seed": seed},
    )


def expanded(**chosen: Any) -> list[Draft]:
    trainings = [training(loops, rule) for loops in (1, 3, 5) for rule in ("base", "deeploop")]
    plan = FakePlan("demo", {"train_lm": trainings})
    section = measure_alignment.MeasureAlignmentSection(language_models={"of": "table1", **chosen})
    return list(measure_alignment.expand(section, plan))


def test_unlooped_trainings_are_left_out() -> None:
    assert [draft.name for draft in expanded(scaling="base")] == [
        "tiny-base-r3-s0",
        "tiny-base-r5-s0",
    ]
    (draft,) = expanded(scaling="deeploop", loops=5)
    assert draft.inputs == (("train_lm", "tiny-deeploop-r5-s0"), ("tokenize", "text"))
    assert draft.params["seed"] == 0


def test_one_loop_is_refused() -> None:
    with pytest.raises(ValidationError, match="with R = 1 no block is visited twice"):
        expanded(loops=[1, 3])


def test_filters_that_admit_nothing_are_refused() -> None:
    with pytest.raises(UserError, match="6 runs of group 'table1' in train_lm, none of them"):
        expanded(seeds=7)


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(ValidationError, match="`language_models`, `hrm`, or both"):
        measure_alignment.MeasureAlignmentSection()


def test_hrm_is_measured_on_the_papers_gradient_visible_visits(tmp_path: Path) -> None:
    """Trained with the published gradient path, in which no block is visited twice."""
    plan = load_plan(ROOT, "smoke")
    inputs: tuple[Input, ...] = ()
    for stage, module, name in (
        ("build_arc", build_arc, "arc1-tiny"),
        ("train_hrm", train_hrm, "hrm-deeploop-s0"),
    ):
        made = job(tmp_path, plan.get(stage, name), inputs)
        for folder in (made.folder, made.work):
            folder.mkdir(parents=True)
        module.run(made)
        inputs = (*inputs, Input(stage, name, made.folder))
    section = measure_alignment.MeasureAlignmentSection(
        hrm={"of": "table3", "seeds": 0, "scaling": "deeploop"},
        measurement={"batches": 2, "rows": 2, "probes": 1, "resamples": 10},
    )
    drafts = FakePlan("smoke", {"train_hrm": [run.draft for run in plan.of("train_hrm")]})
    (draft,) = measure_alignment.expand(section, drafts)
    made = job(tmp_path, SimpleNamespace(stage="measure", name=draft.name, draft=draft), inputs)
    measure_alignment.run(made)
    found = json.loads((made.folder / "alignment.json").read_text())
    assert [point["step"] for point in found["points"]] == [0, 10]
    for point in found["points"]:
        assert point["modules"]["H"]["rounds"] == 1
        assert point["modules"]["L"]["rounds"] == 2
        assert 0 <= point["modules"]["L"]["kappa"]["value"] <= 2
