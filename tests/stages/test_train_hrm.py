from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any, cast

import pytest

from deeploop.errors import UserError
from deeploop.stage import Draft, Planned
from stages import predict_arc, train_hrm

EPOCHS = {"epochs": 100_000}


class Plan:
    """The plan so far: what earlier stages drafted."""

    def __init__(self, **drafts: Sequence[Draft]) -> None:
        self.drafts = drafts

    def of(self, stage: str, group: str | None = None) -> list[Draft]:
        return [d for d in self.drafts.get(stage, ()) if group is None or group in d.groups]


def drafts(groups: dict[str, Any], **section: Any) -> dict[str, Draft]:
    given: dict[str, Any] = {"dataset": "arc-aug-1000", "training": EPOCHS, "groups": groups}
    parsed = train_hrm.TrainHRMSection.model_validate(given | section)
    return {d.name: d for d in train_hrm.expand(parsed, cast(Planned, Plan()))}


def test_a_cost_over_several_nodes_is_how_it_is_started() -> None:
    group = {"table3": {"scaling": ["vanilla"], "seeds": [0]}}
    (run,) = drafts(group, cost={"gpus": 8, "nodes": 2}).values()
    assert (run.execution["processes"], run.execution["nodes"]) == (8, 2)
    assert (run.resources.gpus_per_node, run.resources.nodes) == (4, 2)


def test_arms_and_seeds_are_runs() -> None:
    runs = drafts({"table3": {"scaling": ["vanilla", "deeploop"], "seeds": [0, 1]}})
    assert list(runs) == [
        "hrm-vanilla-s0", "hrm-vanilla-s1", "hrm-deeploop-s0", "hrm-deeploop-s1",
    ]  # fmt: skip
    run = runs["hrm-deeploop-s1"]
    assert run.cell == {"rule": "deeploop", "p": 0.5, "seed": 1}
    assert run.groups == ("table3",) and run.inputs == (("build_arc", "arc-aug-1000"),)
    assert run.params["training"]["seed"] == 1
    assert run.params["training"]["recipe"]["batch_rows"] == 768
    vanilla = runs["hrm-vanilla-s1"].params
    assert vanilla["training"] == run.params["training"]
    differing = {k for k, v in vanilla["model"].items() if v != run.params["model"][k]}
    assert differing == {"scaling"}


def test_gpus_that_do_not_divide_the_batch_are_not_planned() -> None:
    with pytest.raises(UserError, match="7 processes do not divide the 768 rows of a batch"):
        drafts({"table3": {"scaling": ["deeploop"], "seeds": [0]}}, cost={"gpus": 7})


def test_a_swept_p_that_a_rule_has_is_that_rules_run() -> None:
    runs = drafts(
        {
            "table3": {"scaling": ["deeploop"], "seeds": [0]},
            "hrm_p_sweep": {"p": [0.0, 0.45, 0.5], "seeds": [0]},
        }
    )
    assert list(runs) == ["hrm-deeploop-s0", "hrm-vanilla-s0", "hrm-p0.45-s0"]
    assert runs["hrm-deeploop-s0"].groups == ("table3", "hrm_p_sweep")
    assert runs["hrm-p0.45-s0"].cell == {"rule": "p0.45", "p": 0.45, "seed": 0}


def test_exponents_of_each_module_are_a_custom_run() -> None:
    scaling = {
        "rule": "custom",
        "h": {"alpha": 0.25, "beta": 0.25},
        "l": {"alpha": 0.5, "beta": 0.5},
    }
    runs = drafts({"modules": {"custom": {"h25-l50": scaling}, "seeds": [2]}})
    assert runs["hrm-h25-l50-s2"].cell == {"rule": "h25-l50", "p": None, "seed": 2}


def test_constants_and_targets_of_the_model_are_kept_by_every_rule() -> None:
    model = {"scaling": {"n_g": 8, "beta_targets": "output"}}
    runs = drafts({"table3": {"scaling": ["deeploop"], "p": [0.3], "seeds": [0]}}, model=model)
    for run in runs.values():
        kept = run.params["model"]["scaling"]
        assert (kept["n_g"], kept["beta_targets"]) == (8, "output")


def test_an_override_changes_one_run() -> None:
    groups = {"table3": {"scaling": ["vanilla", "deeploop"], "seeds": [0]}}
    changed = {"learning_rate": 2e-4, "steps": 7, "version": 3}
    one, other = drafts(groups, overrides={"hrm-vanilla-s0": changed}).values()
    assert [one.version, other.version] == [3, 1]
    assert one.params["training"]["recipe"]["learning_rate"] == 2e-4
    assert (one.params["training"]["steps"], one.params["training"]["epochs"]) == (7, None)
    assert other.params["training"]["epochs"] == 100_000
    with pytest.raises(UserError, match=r"there is no run 'hrm-vanila-s0'.*hrm-vanilla-s0"):
        drafts(groups, overrides={"hrm-vanila-s0": {"version": 2}})


def test_execution_and_cost_are_no_parameters() -> None:
    groups = {"table3": {"scaling": ["vanilla"], "seeds": [0]}}
    plain = drafts(groups)["hrm-vanilla-s0"]
    cost = {"gpus": 8, "gpu_hours": 192, "memory_gb": 64}
    dear = drafts(groups, cost=cost, execution={"micro_batch": 48})["hrm-vanilla-s0"]
    assert plain.params == dear.params
    assert dear.execution["processes"] == 8 and dear.execution["micro_batch"] == 48
    assert (dear.resources.gpus, dear.resources.estimate) == (8, "ours")
    assert dear.resources.minutes == 1800


@pytest.mark.parametrize(
    "groups", [{}, {"table3": {"seeds": [0]}}, {"table3": {"scaling": ["base"], "seeds": [0]}}]
)
def test_groups_that_mean_nothing_are_refused(groups: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="groups"):
        drafts(groups)


def test_every_training_is_predicted_under_its_name() -> None:
    trained = list(drafts({"table3": {"scaling": ["vanilla"], "seeds": [0, 1]}}).values())
    section = predict_arc.PredictArcSection(cost={"gpus": 2, "gpu_hours": 4})
    found = list(predict_arc.expand(section, cast(Planned, Plan(train_hrm=trained))))
    assert [draft.name for draft in found] == ["hrm-vanilla-s0", "hrm-vanilla-s1"]
    assert found[0].inputs == (("train_hrm", "hrm-vanilla-s0"), ("build_arc", "arc-aug-1000"))
    assert found[0].groups == ("table3",) and found[0].cell == trained[0].cell
    assert found[0].params == {} and found[0].resources.gpus == 2


def test_planning_imports_nothing_heavy() -> None:
    script = (
        "import sys, stages.train_hrm, stages.predict_arc, deeploop.commands.hrm\n"
        "print(sorted({'torch', 'polars', 'numba', 'numpy'} & sys.modules.keys()))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[]"
