"""The smoke suite, for real: both engines build the same report from the same commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.conftest import Project, make_project

SMOKE = ("--config", "suite=smoke")


@pytest.fixture(scope="module")
def snakemake(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("snakemake") / "a project", None, "smoke")
    outcome = project.snakemake("all", *SMOKE)
    assert outcome.code == 0, outcome.text
    return project


def report_of(project: Project) -> dict[str, bytes]:
    folder = project.root / "reports" / "smoke"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
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
        "table1/all",
        "training_curves/all",
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
