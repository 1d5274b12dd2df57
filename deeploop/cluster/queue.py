"""What Slurm's queue says of the user's jobs, and the mark by which ours are found again."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

MARK = "deeploop:"
"""Begins the comment of our jobs; the run's place in the store follows. Whoever builds the same
result, from whatever process, finds the job by it."""

FORMAT = "%A|%T|%r|%N|%L|%k"

LOST = frozenset(
    [
        "BOOT_FAIL",
        "CANCELLED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ]
)
"""States of a job that has ended without success."""

HOPELESS = frozenset(
    [
        "AccountNotAllowed",
        "BadConstraints",
        "DependencyNeverSatisfied",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
    ]
)
"""Reasons for which a job would wait for ever."""


@dataclass(frozen=True)
class QueuedJob:
    """One line of squeue."""

    id: str
    state: str
    reason: str
    nodes: str
    time_left: str
    """To its time limit."""
    comment: str

    @property
    def completed(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.state == "COMPLETED"

    @property
    def lost(self) -> bool:
        """Whether it ended without success."""
        return self.state in LOST

    @property
    def alive(self) -> bool:
        """Whether it runs or will."""
        return not (self.completed or self.lost)

    @property
    def hopeless(self) -> bool:
        """Whether it could never start."""
        return self.state == "PENDING" and self.reason in HOPELESS

    @property
    def launch_failed(self) -> bool:
        """Whether a node could not start it, after which Slurm holds it."""
        return self.alive and self.reason.replace("_", " ").startswith("launch failed")

    @property
    def held(self) -> bool:
        """Whether it waits for a person."""
        return self.state == "REQUEUE_HOLD" or "held" in self.reason.lower()


def comment_of(entry: Path) -> str:
    """Return the comment of the job that computes an entry of the store."""
    return f"{MARK}{entry}"


def own_jobs(timeout: float = 60.0) -> list[QueuedJob] | None:
    """Return the user's jobs, ended ones for as long as Slurm remembers; None: no answer."""
    command = ["squeue", "--me", "--states=all", "--noheader", f"--format={FORMAT}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    lines = (line.split("|", 5) for line in done.stdout.splitlines())
    return [QueuedJob(*fields) for fields in lines if len(fields) == 6]


def live_job(comment: str, jobs: list[QueuedJob]) -> QueuedJob | None:
    """Return the job with a comment that runs or will, when there is one."""
    return next((job for job in jobs if job.comment == comment and job.alive), None)
