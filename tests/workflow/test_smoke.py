"""The smoke suite, for real: both engines build the same report from the same commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from deeploop.reporting.pages import RECORDS_PAGE
from tests.workflow.conftest import Project, make_project

SMOKE = ("--config", "suite=smoke")
pytestmark = pytest.mark.xdist_group("smoke")  # one build serves all


@pytest.fixture(scope="module")
def snakemake(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("snakemake") / "a project", None, "smoke")
    outcome = project.snakemake("all", *SMOKE)
    assert outcome.code == 0, outcome.text
    return project


def report_of(project: Project) -> dict[str, bytes]:
    """Return the report's files; the page of the records, with its times, is no output."""
    folder = project.root / "reports" / "smoke"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != RECORDS_PAGE
    }


def test_the_report_is_there(snakemake: Project) -> None:
    report = report_of(snakemake)
    assert {"index.html", "report.md", "tables/table1.csv", "tables/table1.tex"} <= set(report)
    assert b"not the paper" in report["index.html"]


def test_a_second_build_has_nothing_to_do(snakemake: Project) -> None:
    outcome = snakemake.snakemake("all", *SMOKE)
    assert (outcome.code, outcome.jobs) == (0, set())
    assert "Nothing to be done" in outcome.text


def test_dvc_builds_the_same_report(snakemake: Project, tmp_path: Path) -> None:
    project = make_project(tmp_path / "dvc", None, "smoke")
    outcome = project.dvc()
    assert outcome.code == 0, outcome.text
    assert project.manifests() == snakemake.manifests()
    assert report_of(project) == report_of(snakemake)
    assert not project.dvc().computed


def test_one_learning_rate_rebuilds_one_run(snakemake: Project) -> None:
    path = snakemake.root / "params.yaml"
    before = path.read_text()
    groups = "      groups:\n        table1: {backbone: smoke"
    override = "      overrides: {smoke-base-r1-s0: {learning_rate: 2e-3}}\n"
    snakemake.edit("params.yaml", groups, override + groups)
    outcome = snakemake.snakemake("all", *SMOKE)
    path.write_text(before)
    assert outcome.code == 0, outcome.text
    assert outcome.computed == {
        "train_lm/smoke-base-r1-s0",
        "evaluate_lm/smoke-base-r1-s0",
        "table1/all",
        "table2/all",
        "report/all",
    }
    assert not snakemake.snakemake("all", *SMOKE).computed  # back again: the store has it


def test_the_paper_suite_plans_on_a_laptop(snakemake: Project) -> None:
    outcome = snakemake.snakemake("-n", "all", "--config", "suite=paper")
    assert outcome.code == 0, outcome.text
    assert "train_lm" in outcome.text
    assert not (snakemake.root / "results" / "paper" / "train_lm").exists()


def test_a_dear_build_needs_a_word(snakemake: Project) -> None:
    outcome = snakemake.snakemake("all", "--config", "suite=paper")
    assert outcome.code == 2
    assert "nothing was started: this may spend" in outcome.text
    assert not outcome.jobs


def test_snakemake_finds_the_slurm_profile_by_name(snakemake: Project) -> None:
    outcome = snakemake.run("snakemake", "--profile", "slurm", "-n", "all", *SMOKE)
    assert outcome.code == 0, outcome.text


def test_table3_builds_only_what_it_needs(tmp_path: Path) -> None:
    for engine in ("snakemake", "dvc"):
        project = make_project(tmp_path / engine, None, "smoke")
        config = SMOKE if engine == "snakemake" else ()
        outcome = project.build(engine, "table3", *config)
        assert outcome.code == 0, outcome.text
        hrm = {f"train_hrm/hrm-{rule}-s0" for rule in ("vanilla", "deeploop")}
        voted = ("hrm-vanilla-s0", "hrm-deeploop-s0", "gpt-deeploop-r2-s0")  # its last row
        assert outcome.computed == {
            *("build_arc/arc1-tiny", "train_arc_lm/gpt-deeploop-r2-s0", "table3/all"),
            *hrm,
            *(f"{stage}/{run}" for stage in ("predict_arc", "vote_arc") for run in voted),
        }


def test_one_hrm_run_rebuilds_its_own_line(snakemake: Project) -> None:
    path = snakemake.root / "params.yaml"
    before = path.read_text()
    dataset = "      dataset: arc1-tiny\n"
    override = "      overrides: {hrm-vanilla-s0: {learning_rate: 2e-3}}\n"
    snakemake.edit("params.yaml", dataset, dataset + override)
    outcome = snakemake.snakemake("all", *SMOKE)
    path.write_text(before)
    assert outcome.code == 0, outcome.text
    own = {f"{stage}/hrm-vanilla-s0" for stage in ("train_hrm", "predict_arc", "vote_arc")}
    # Ten steps may leave predictions, and so the votes, as they were: then the chain stops.
    assert {"train_hrm/hrm-vanilla-s0", "report/all"} <= outcome.computed
    assert outcome.computed <= own | {"table3/all", "report/all"}


def override(project: Project, text: str) -> str:
    """Write overrides into the smoke suite; return the plan as it was."""
    path = project.root / "params.yaml"
    before = path.read_text()
    groups = "      groups:\n        table1: {backbone: smoke"
    project.edit("params.yaml", groups, f"      overrides: {text}\n{groups}")
    return before


def test_a_checkpoint_from_elsewhere_is_marked_external(snakemake: Project) -> None:
    trained = snakemake.entry_of("train_lm/smoke-base-r1-s0", "smoke") / "outputs"
    shutil.copytree(trained, snakemake.root / "elsewhere")
    before = override(snakemake, "{smoke-base-r1-s0: {checkpoint: elsewhere}}")
    outcome = snakemake.snakemake("all", *SMOKE)
    assert outcome.code == 0, outcome.text
    assert "train_lm/smoke-base-r1-s0" in outcome.computed
    taken = snakemake.entry_of("train_lm/smoke-base-r1-s0", "smoke") / "outputs"
    ours, theirs = (json.loads((f / "metrics.json").read_text()) for f in (trained, taken))
    assert theirs["validation_loss"] == pytest.approx(ours["validation_loss"], rel=1e-6)
    assert theirs["validation_loss_source"] == "external"
    assert "¶ external" in (snakemake.root / "reports/smoke/report.md").read_text()
    assert "external checkpoint" in snakemake.deeploop("status", "--suite", "smoke").text
    explained = snakemake.deeploop("explain", "train_lm", "smoke-base-r1-s0", "--suite", "smoke")
    assert "external" in explained.text
    (snakemake.root / "params.yaml").write_text(before)


def test_a_checkpoint_of_another_model_is_refused(snakemake: Project) -> None:
    other = snakemake.entry_of("train_lm/smoke-base-r3-s0", "smoke") / "outputs"
    shutil.copytree(other, snakemake.root / "other", dirs_exist_ok=True)
    before = override(snakemake, "{smoke-deeploop-r1-s0: {checkpoint: other}}")
    outcome = snakemake.deeploop("run", "train_lm", "smoke-deeploop-r1-s0", "--suite", "smoke")
    (snakemake.root / "params.yaml").write_text(before)
    assert outcome.code == 2
    assert "another configuration: model.loops: 3, not 1" in outcome.text


def test_a_run_starts_from_anothers_weights(snakemake: Project) -> None:
    before = override(snakemake, "{smoke-deeploop-r1-s0: {init_from: smoke-base-r1-s0}}")
    outcome = snakemake.snakemake("table1", *SMOKE)
    assert outcome.code == 0, outcome.text
    assert outcome.computed == {"train_lm/smoke-deeploop-r1-s0", "table1/all"}
    entry = snakemake.entry_of("train_lm/smoke-deeploop-r1-s0", "smoke")
    first = json.loads((entry / "outputs" / "metrics.json").read_text())["first_train_loss"]
    assert first < 5.2  # random weights start at ln 256 = 5.5
    (snakemake.root / "params.yaml").write_text(before)
    circle = "{smoke-base-r1-s0: {init_from: smoke-base-r3-s0}, smoke-base-r3-s0: {init_from: smoke-base-r1-s0}}"
    override(snakemake, circle)
    outcome = snakemake.deeploop("plan", "--suite", "smoke")
    (snakemake.root / "params.yaml").write_text(before)
    assert (outcome.code, outcome.text.count("\n")) == (2, 1)
    assert "goes in a circle" in outcome.text
