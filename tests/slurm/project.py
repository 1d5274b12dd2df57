"""A clone of the project whose smoke suite trains by several processes, for the loopback Slurm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SETTINGS = "partition: gpu\npoll_seconds: 1\nstop_seconds: 15\n"
CPUS_ONLY = "      steps: 30\n"
TWO_PROCESSES = "table1: {backbone: smoke, "
TWO_NODES = "p_sweep: {backbone: smoke, "


def clone(repository: Path, target: Path, nodes: int = 2, steps: int = 30) -> None:
    """Clone, and change who trains where; how long the p-sweep trains, too."""
    subprocess.run(["git", "clone", "--quiet", repository, target], check=True)
    (target / "workflow/profiles/slurm/local.yaml").write_text(SETTINGS)
    plan = target / "params.yaml"
    head, name, smoke = plan.read_text().partition("\n  smoke:  #")
    for old, new in (
        (CPUS_ONLY, CPUS_ONLY + "      execution: {device: cpu}\n"),
        (TWO_PROCESSES, TWO_PROCESSES + "gpus: 2, "),
        (TWO_NODES, TWO_NODES + f"gpus: 4, nodes: {nodes}, steps: {steps}, "),
    ):
        assert old in smoke, old
        smoke = smoke.replace(old, new, 1)
    plan.write_text(head + name + smoke)


if __name__ == "__main__":
    clone(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
