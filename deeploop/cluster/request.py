"""What a job asks of Slurm: sbatch's options, and whether Slurm could ever grant them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deeploop.cluster.settings import SETTINGS_FILE, Cluster
from deeploop.errors import UserError
from deeploop.plan import Run
from deeploop.stage import Resources

TRANSIENT = re.compile(
    r"unable to contact slurm|socket timed out|connection refused|connect failure"
    r"|temporarily un|zero bytes were transmitted|communication|transport endpoint"
    r"|submit ?(job)? ?limit|maxsubmit|expired|try again|protocol authentication",
    re.IGNORECASE,
)
"""What sbatch says when the same command may succeed later."""


@dataclass(frozen=True)
class Request:
    """The resources of one job; a node has one task, which starts its own processes."""

    cpus: int
    """Per node."""
    memory_mb: int
    """Per node."""
    minutes: int
    nodes: int = 1
    gpus_per_node: int = 0

    def options(self, cluster: Cluster) -> list[str]:
        """Return sbatch's options."""
        on_gpus = self.gpus_per_node > 0
        partition = cluster.partition if on_gpus else cluster.cpu_partition or cluster.partition
        gpu = f"gpu:{cluster.gpu_type}" if cluster.gpu_type else "gpu"
        return [
            f"--nodes={self.nodes}",
            "--ntasks-per-node=1",
            f"--cpus-per-task={self.cpus}",
            f"--mem={self.memory_mb}M",
            f"--time={min(self.minutes, cluster.max_minutes)}",
            *([f"--gres={gpu}:{self.gpus_per_node}"] if on_gpus else []),
            *([f"--partition={partition}"] if partition else []),
            *([f"--account={cluster.account}"] if cluster.account else []),
            *cluster.options,
        ]


def request_of(resources: Resources) -> Request:
    """Return what a run's resources mean for Slurm."""
    return Request(
        cpus=resources.cpus,
        memory_mb=resources.memory_mb,
        minutes=resources.minutes,
        nodes=resources.nodes,
        gpus_per_node=resources.gpus_per_node,
    )


def require_possible(runs: Iterable[Run], cluster: Cluster) -> None:
    """Ask Slurm, before anything is submitted, whether it could ever run what is planned.

    Raises:
        UserError: there is no Slurm here, or it refuses a run's request.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "there is no Slurm on this machine (no sbatch): run on a login node of a cluster, or"
            " `snakemake -c all all` to build here"
        )
    asked: dict[Request, Run] = {}
    for run in runs:
        asked.setdefault(request_of(run.resources), run)
    for request, run in asked.items():
        if refusal := _refusal(request.options(cluster)):
            options = " ".join(request.options(cluster))
            raise UserError(
                f"Slurm could never run {run.id}: {refusal} (asked for {options}); change"
                f" {SETTINGS_FILE}, or the run's cost in params.yaml"
            )


def _refusal(options: list[str]) -> str:
    """Return why Slurm refuses the options for good, '' when it does not."""
    try:
        done = subprocess.run(
            ["sbatch", "--test-only", *options, "--wrap=true"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    if done.returncode == 0 or TRANSIENT.search(done.stderr):
        return ""
    return last_line(done.stderr)


def last_line(text: str) -> str:
    """Return what a Slurm command said last, without its own name before it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[-1] if lines else "no reason given"
    return re.sub(r"^\w+: (error: |fatal: )?", "", said).removeprefix("allocation failure: ")


def submit(
    request: Request, cluster: Cluster, root: Path, name: str, comment: str, log: Path, script: str
) -> str:
    """Submit a job and return its id.

    Raises:
        Refused: Slurm will not take it, now or ever (`transient` tells which).
    """
    command = [
        "sbatch",
        "--parsable",
        "--export=ALL",
        "--requeue",
        "--open-mode=append",
        f"--signal=B:TERM@{cluster.stop_seconds}",
        f"--job-name={name}",
        f"--comment={comment}",
        f"--output={log}",
        f"--chdir={root}",
        *request.options(cluster),
    ]
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command, input=script, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        raise Refused("sbatch did not answer within 2 minutes", transient=True) from None
    found = re.search(r"^\d+", done.stdout.strip(), re.MULTILINE)
    if done.returncode or not found:
        said = last_line(done.stderr or done.stdout)
        raise Refused(said, transient=bool(TRANSIENT.search(done.stderr)))
    return found.group()


class Refused(Exception):
    """Slurm did not take a job."""

    def __init__(self, said: str, transient: bool) -> None:
        super().__init__(said)
        self.transient = transient
