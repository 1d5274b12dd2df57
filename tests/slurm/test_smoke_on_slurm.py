"""The smoke suite through `snakemake --profile slurm all`, from a fresh clone's root.

Trainings run in two processes on one node, and in four across two nodes.
"""

from __future__ import annotations

import json
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


def test_the_smoke_suite(slurm: Slurm, tmp_path: Path) -> None:
    clone(REPOSITORY, tmp_path / "clone")
    project = Project(tmp_path / "clone")
    outcome = Build(project).outcome(seconds=900)
    assert outcome.code == 0, outcome.text
    assert (project.root / "reports/smoke/index.html").is_file()
    one, two = "train_lm/smoke-base-r1-s0", "train_lm/smoke-p0.35-r3-s0"
    for run, nodes in ((one, 1), (two, 2)):
        (job,) = (record["job"] for record in events(project, run, "started"))
        assert slurm.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%D").strip() == str(nodes)
    metrics = json.loads((project.entry_of(two, "smoke") / "outputs/metrics.json").read_text())
    assert metrics["steps"] == 30
