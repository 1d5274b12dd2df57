"""A small project built by the real engines: copies of the code, the Snakefile and a toy paper."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TOY = Path(__file__).parent / "toy"
EVENT = re.compile(r"^([a-z0-9_]+/\S+): (started|resumed|already)", re.MULTILINE)
COPIED = (
    "Snakefile",
    "workflow",
    "deeploop",
    ".dvcignore",
    "slurm",
    "profiles",
    "requirements.txt",
)


@dataclass
class Outcome:
    """What a build did."""

    code: int
    text: str

    @property
    def computed(self) -> set[str]:
        return {run for run, what in EVENT.findall(self.text) if what != "already"}

    @property
    def resumed(self) -> set[str]:
        return {run for run, what in EVENT.findall(self.text) if what == "resumed"}

    @property
    def jobs(self) -> set[str]:
        return {run for run, _ in EVENT.findall(self.text)}


class Project:
    """A project folder and the commands that people type in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *command: str, **environment: str) -> Outcome:
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,  # the smoke suite takes a minute or two of CPU, and machines are busy
            check=False,
        )
        return Outcome(done.returncode, done.stdout)

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def environment(self, **more: str) -> dict[str, str]:
        foreign = {k for k in os.environ if k.startswith(("DEEPLOOP", "SLURM"))} - {"SLURM_CONF"}
        clean = {k: v for k, v in os.environ.items() if k not in foreign}
        path = f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
        return {**clean, "PATH": path, "DVC_NO_ANALYTICS": "1", "PYTHONPATH": "", **more}

    def deeploop(self, *arguments: str, **environment: str) -> Outcome:
        return self.run(sys.executable, "-m", "deeploop", *arguments, **environment)

    def snakemake(self, *targets: str, **environment: str) -> Outcome:
        return self.run("snakemake", "-c2", *(targets or ("all",)), **environment)

    def dvc(self, *targets: str, **environment: str) -> Outcome:
        """Type `dvc repro`, and again when it says so."""
        outcome = self.run("dvc", "repro", *targets, **environment)
        if outcome.code and "type `dvc repro` again" in outcome.text:
            again = self.run("dvc", "repro", *targets, **environment)
            outcome = Outcome(again.code, outcome.text + again.text)
        return outcome

    def build(self, engine: str, *targets: str, **environment: str) -> Outcome:
        return getattr(self, engine)(*targets, **environment)

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text()
        assert old in text, (name, old)
        path.write_text(text.replace(old, new, 1))

    def manifests(self) -> dict[str, str]:
        found = sorted(self.root.glob("results/*/*/*/manifest.json"))
        return {str(path.relative_to(self.root)): path.read_text() for path in found}

    def entry_of(self, run: str, suite: str = "demo") -> Path:
        import json

        entry = json.loads((self.root / f"results/{suite}/{run}/entry.json").read_text())
        return self.root / entry["store"]


def make_project(root: Path, toy: Path | None = TOY, suite: str | None = None) -> Project:
    """Lay a project folder: the toy's plan and stages, or the paper's, under the real code."""
    ignore = shutil.ignore_patterns("__pycache__")
    if toy is not None:
        shutil.copytree(toy, root, ignore=ignore)
    for name in COPIED if toy is not None else (*COPIED, "params.yaml", "stages"):
        source, target = REPOSITORY / name, root / name
        root.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_dir():
            shutil.copytree(source, target, ignore=ignore)
        else:
            shutil.copy(source, target)
    if toy is None:
        templates = root / "reports" / "templates"
        shutil.copytree(REPOSITORY / "reports" / "templates", templates)
        shutil.copy(REPOSITORY / "reports" / "published.yaml", root / "reports")
    project = Project(root)
    assert project.run("dvc", "init", "--no-scm", "-q").code == 0
    made = project.deeploop("dvc", *(("--suite", suite) if suite else ()))
    assert made.code == 0, made.text
    return project


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Project]:
    """The toy paper, built once by each engine alone."""
    projects = {}
    for engine in ("snakemake", "dvc"):
        project = make_project(tmp_path_factory.mktemp(engine) / "project")
        outcome = project.build(engine)
        assert outcome.code == 0, outcome.text
        projects[engine] = project
    return projects


@pytest.fixture
def copy_of(built: dict[str, Project], tmp_path: Path) -> Callable[[str], Project]:
    """Make a copy of a built project that a test may change."""

    def copy(engine: str) -> Project:
        shutil.copytree(built[engine].root, tmp_path / "copy", symlinks=True)
        return Project(tmp_path / "copy")

    return copy
