"""A loopback Slurm, started for the tests and taken away after them.

Time-outs are for a busy machine: a test takes seconds, and fails after minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm.project import SETTINGS
from tests.workflow.conftest import Outcome, Project, make_project

SCRIPT = Path(__file__).with_name("cluster.sh")
REQUIRED = "DEEPLOOP_TEST_SLURM"
"""Environment variable that forbids to skip, where Slurm is installed."""
EVENT_SECONDS = 240
BUILD_SECONDS = 600


def can_start() -> bool:
    return os.geteuid() == 0 and all(
        shutil.which(name) for name in ("slurmctld", "slurmd", "munged")
    )


class Slurm:
    """The cluster, as an administrator handles it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def do(self, action: str, *more: str) -> None:
        subprocess.run([SCRIPT, action, self.folder, *more], check=True, timeout=120)

    def run(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    def job_of(self, run: str) -> str:
        """Return the id of the live job of a run once it is at work."""
        return self.wait(lambda: self.run("squeue", "-h", "-t", "R", "-n", run, "-o", "%A").strip())

    def clear(self) -> None:
        """Cancel all jobs and wait until their processes are gone."""
        self.run("scancel", "--me")
        self.wait(lambda: not self.run("squeue", "-h", "--me"))

    @staticmethod
    def wait(found: Callable[[], object], seconds: float = EVENT_SECONDS) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := found():
                return str(value)
            time.sleep(0.2)
        raise AssertionError(f"nothing came within {seconds} s")


def start_or_skip(cluster: Slurm) -> None:
    """Start the cluster; some containers allow no slurmd, which `make slurm-test` does not excuse.

    Only that is excused: what happens to builds on a cluster that runs always counts.
    """
    try:
        cluster.do("up", str(os.getpid()))
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        if REQUIRED in os.environ:
            raise
        pytest.skip(f"no Slurm can be started here: {error}")


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # pytest's are too long for sockets
    cluster = Slurm(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "etc" / "slurm.conf"))
        try:
            start_or_skip(cluster)
            yield cluster
        finally:
            cluster.do("down")
            shutil.rmtree(folder)


class Build:
    """`snakemake --profile slurm all --config suite=smoke` at work; ends under a time-out."""

    def __init__(
        self, project: Project, *before: str, target: str = "all", **environment: str
    ) -> None:
        command = ("snakemake", "--profile", "slurm", target, "--config", "suite=smoke")
        self.project = project
        self.log = project.root / f"snakemake-{time.monotonic_ns()}.txt"
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                [*before, *command],
                cwd=project.root,
                env=project.environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def text(self) -> str:
        return self.log.read_text()

    def outcome(self, seconds: float = BUILD_SECONDS) -> Outcome:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"the build hangs:\n{self.text}")
        return Outcome(code, self.text)


@pytest.fixture
def start(slurm: Slurm) -> Iterator[Callable[..., Build]]:
    """Start builds; whatever a test leaves of them and of their jobs ends with it."""
    builds: list[Build] = []

    def begin(project: Project, *before: str, **options: str) -> Build:
        builds.append(Build(project, *before, **options))
        return builds[-1]

    yield begin
    for build in builds:
        build.kill()
    slurm.clear()


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
