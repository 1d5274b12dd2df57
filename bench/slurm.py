"""What building through Slurm costs beside plain sbatch of the same commands.

    tests/slurm/cluster.sh up /tmp/loopback && export SLURM_CONF=/tmp/loopback/etc/slurm.conf
    python -m bench.slurm --jobs 50
    tests/slurm/cluster.sh down /tmp/loopback

One project, jobs that do nothing. Ours: `snakemake --profile slurm`. Plain: `sbatch` in a loop,
waiting for all, of the command that each of our jobs runs in the end. The two alternate; each is
a process of its own. Printed: seconds from 'input ready' (the command is typed) to 'job queued',
of the first and the last, the CPU seconds of the controller a job, and those of a job that finds
its result in the store, so has nothing to do.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.workflow.conftest import TOY, Project, make_project

PLAN = """suite: bench
suites:
  bench:
    tokenize: {text: {file: data/smoke.txt, lower: true}}
    train:
      runs:
"""


def project_of(folder: Path, jobs: int) -> Project:
    """Lay a toy project with so many trainings, its input built."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(TOY, folder / "toy")
    runs = (
        f"        r{n}: {{learning_rate: 0.{n + 1:03d}, weight_decay: 0.1}}\n" for n in range(jobs)
    )
    (folder / "toy" / "params.yaml").write_text(PLAN + "".join(runs))
    project = make_project(folder / "project", folder / "toy")
    settings = "poll_seconds: 1\n"
    (project.root / "workflow/profiles/slurm/local.yaml").write_text(settings)
    built = project.snakemake(
        "results/bench/tokenize/text/manifest.json", "--config", "suite=bench"
    )
    assert built.code == 0, built.text
    return project


def cpu_of_children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ours(project: Project) -> dict[str, float]:
    before, started = cpu_of_children(), time.time()
    outcome = project.run("snakemake", "--profile", "slurm", "all", "--config", "suite=bench")
    ended, cpu = time.time(), cpu_of_children() - before
    assert outcome.code == 0, outcome.text
    names = re.findall(r"submitted as Slurm job (\d+)", outcome.text)
    return summary(names, started, ended, cpu)


def plain(project: Project, jobs: int) -> dict[str, float]:
    before, started = cpu_of_children(), time.time()
    environment = project.environment(PYTHONPATH=str(project.root))
    names = []
    for number in range(jobs):
        command = f"{sys.executable} -P -m deeploop run train r{number} --suite bench --planned"
        submitted = subprocess.run(
            ["sbatch", "--parsable", "--mem=4096M", "--output=/dev/null", f"--wrap={command}"],
            cwd=project.root,
            env=environment | {"DEEPLOOP_PLAN": plan_of(project)},
            capture_output=True,
            text=True,
            check=True,
        )
        names.append(submitted.stdout.strip())
    while subprocess.run(["squeue", "-h", "--me"], capture_output=True, check=True).stdout:
        time.sleep(1)
    return summary(names, started, time.time(), cpu_of_children() - before)


def cpu_of_a_job(project: Project, module: str, *arguments: str) -> float:
    """Return the median CPU seconds of what a job runs, its result being there already."""
    environment = project.environment(
        PYTHONPATH=str(project.root), DEEPLOOP_PLAN=plan_of(project), SLURM_JOB_ID="0"
    )
    command = [sys.executable, "-P", "-m", module, *arguments]
    taken = []
    for _ in range(5):
        before = cpu_of_children()
        subprocess.run(command, cwd=project.root, env=environment, capture_output=True, check=True)
        taken.append(cpu_of_children() - before)
    return statistics.median(taken)


def plan_of(project: Project) -> str:
    import json

    return str(json.loads((project.root / "results/bench/plan.json").read_text())["plan"])


def summary(names: list[str], started: float, ended: float, cpu: float) -> dict[str, float]:
    times = subprocess.run(
        ["squeue", "-h", "-t", "all", "-o", "%A %V", "--me"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    queued = dict(line.split() for line in times.splitlines())
    at = [time.mktime(time.strptime(queued[name], "%Y-%m-%dT%H:%M:%S")) for name in names]
    return {
        "first job queued after, s": min(at) - int(started),  # Slurm tells whole seconds
        "all jobs queued after, s": max(at) - int(started),
        "all done after, s": ended - started,
        "controller CPU per job, s": cpu / len(names),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/deeploop-bench-slurm"))
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found: dict[str, list[dict[str, float]]] = {"snakemake --profile slurm": [], "sbatch": []}
    for number in range(args.rounds):
        folder = args.folder / str(number)
        project = project_of(folder / "ours", args.jobs)
        run = ("train", "r0", "--suite", "bench")
        row = ours(project)
        row["job's own CPU, s"] = cpu_of_a_job(
            project, "deeploop.cluster.job", *run, "--partial", str(project.root)
        )
        found["snakemake --profile slurm"].append(row)
        shutil.rmtree(project.root / "store" / "train")
        row = plain(project, args.jobs)
        row["job's own CPU, s"] = cpu_of_a_job(project, "deeploop", "run", *run, "--planned")
        found["sbatch"].append(row)
    for key in found["sbatch"][0]:
        middle = {who: statistics.median(r[key] for r in rows) for who, rows in found.items()}
        print(f"{key:<28}" + "  ".join(f"{who} {value:8.2f}" for who, value in middle.items()))


if __name__ == "__main__":
    main()
