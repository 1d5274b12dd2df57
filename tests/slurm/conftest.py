"""A loopback Slurm, started for the tests and taken away after them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm.project import SETTINGS
from tests.workflow.conftest import Outcome, Project, make_project

SCRIPT = Path(__file__).with_name("cluster.sh")
BUILD_SECONDS = 240
COMMAND = ("snakemake", "--profile", "slurm", "all", "--config", "suite=smoke")
SUBMITTED = re.compile(r"(\S+): submitted as Slurm job (\d+)")


def can_start() -> bool:
    return os.geteuid() == 0 and all(
        shutil.which(name) for name in ("slurmctld", "slurmd", "munged")
    )


class Slurm:
    """The cluster, as an administrator handles it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def do(self, action: str) -> None:
        subprocess.run([SCRIPT, action, self.folder], check=True, timeout=60)

    def run(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    def job_of(self, run: str) -> str:
        """Return the id of the live job of a run once it is at work."""
        return self.wait(lambda: self.run("squeue", "-h", "-t", "R", "-n", run, "-o", "%A").strip())

    @staticmethod
    def wait(found: Callable[[], object], seconds: float = 90) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := found():
                return str(value)
            time.sleep(0.2)
        raise AssertionError(f"nothing came within {seconds} s")


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    configuration = Path("/etc/slurm/slurm.conf")
    if configuration.is_symlink() and configuration.exists():  # one that `cluster.sh up` started
        yield Slurm(configuration.resolve().parents[1])
        return
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    cluster.do("up")
    try:
        yield cluster
    finally:
        cluster.do("down")


class Build:
    """`snakemake --profile slurm all --config suite=smoke` at work; ends under a time-out."""

    def __init__(self, project: Project, **environment: str) -> None:
        self.project = project
        self.log = project.root / f"snakemake-{time.monotonic_ns()}.txt"
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                COMMAND,
                cwd=project.root,
                env=project.environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def outcome(self, seconds: float = BUILD_SECONDS) -> Outcome:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"the build hangs:\n{self.log.read_text()}")
        return Outcome(code, self.log.read_text())

    def submitted(self, run: str) -> list[str]:
        return [job for name, job in SUBMITTED.findall(self.log.read_text()) if name == run]


@pytest.fixture
def toy(slurm: Slurm, tmp_path: Path) -> Project:
    project = make_project(tmp_path / "project")
    (project.root / "workflow/profiles/slurm/local.yaml").write_text(SETTINGS)
    return project


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The toy paper's manifests when it is built on this machine and nothing happens."""
    project = make_project(tmp_path_factory.mktemp("undisturbed") / "project")
    outcome = project.snakemake("all", "--config", "suite=smoke")
    assert outcome.code == 0, outcome.text
    return project.manifests()


def events(project: Project, run: str, event: str) -> list[dict]:
    """Return the events of one kind of a run's jobs."""
    path = project.root / "logs" / "smoke" / f"{run}.jobs.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [record for line in lines if (record := json.loads(line))["event"] == event]
