"""The smoke suite through `snakemake --profile slurm all`, from a fresh clone's root.

Trainings run in two processes on one node, and in four across two nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.conftest import Build, Slurm, can_start, events
from tests.slurm.project import clone
from tests.workflow.conftest import REPOSITORY, Project

pytestmark = [
    pytest.mark.slow,  # some twenty processes import torch
    pytest.mark.skipif(not can_start(), reason="needs root and Debian's slurm-wlm and munge"),
    pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="needs a git checkout to clone"),
    pytest.mark.xdist_group("slurm"),
]
Start = Callable[..., Build]
ONE_NODE, TWO_NODES = "train_lm/smoke-base-r1-s0", "train_lm/smoke-p0.35-r3-s0"
LONG = 600  # steps: tens of seconds


def manifest_of(run: str) -> str:
    return f"results/smoke/{run}/manifest.json"


def trained_here(root: Path, *runs: str, steps: int = 30) -> dict[str, str]:
    """Return manifests, so the hashes of weights, of as many processes on this machine alone."""
    clone(REPOSITORY, root, nodes=1, steps=steps)
    project = Project(root)
    targets = map(manifest_of, runs)
    outcome = project.run("snakemake", "-c1", *targets, "--config", "suite=smoke")
    assert outcome.code == 0, outcome.text
    return {run: (root / manifest_of(run)).read_text() for run in runs}


def test_the_smoke_suite(slurm: Slurm, start: Start, tmp_path: Path) -> None:
    clone(REPOSITORY, tmp_path / "clone")
    project = Project(tmp_path / "clone")
    outcome = start(project).outcome(seconds=1200)
    assert outcome.code == 0, outcome.text
    assert (project.root / "reports/smoke/index.html").is_file()
    for run, nodes in ((ONE_NODE, 1), (TWO_NODES, 2)):
        (job,) = (record["job"] for record in events(project, run, "started"))
        assert slurm.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%D").strip() == str(nodes)
    alone = trained_here(tmp_path / "here", ONE_NODE, TWO_NODES)
    assert alone == {run: (project.root / manifest_of(run)).read_text() for run in alone}


def test_a_training_on_two_nodes_loses_nothing(slurm: Slurm, start: Start, tmp_path: Path) -> None:
    """Its time limit nears, then the node that has not the batch script fails."""
    clone(REPOSITORY, tmp_path / "clone", steps=LONG)
    project = Project(tmp_path / "clone")
    build = start(project, target=manifest_of(TWO_NODES))
    telemetry = project.root / "results" / "smoke" / TWO_NODES / "telemetry.jsonl"

    def further_than(lines: int) -> int:
        slurm.wait(lambda: telemetry.exists() and telemetry.read_text().count("\n") > lines)
        return telemetry.read_text().count("\n")

    seen = further_than(4)
    job = slurm.job_of(TWO_NODES)
    slurm.run("scancel", "--batch", "--signal=TERM", job)  # what --signal=B:TERM@ does
    slurm.wait(lambda: len(events(project, TWO_NODES, "started")) == 2)
    seen = further_than(seen + 4)
    slurm.run("scontrol", "update", "nodename=node2", "state=down", "reason=test")
    outcome = build.outcome()
    assert outcome.code == 0, outcome.text
    assert [record["job"] for record in events(project, TWO_NODES, "started")] == [job] * 3
    assert [record["code"] for record in events(project, TWO_NODES, "ended")][:1] == [75]
    assert "Trying to restart" not in outcome.text
    alone = trained_here(tmp_path / "here", TWO_NODES, steps=LONG)
    assert alone == {TWO_NODES: (project.root / manifest_of(TWO_NODES)).read_text()}
