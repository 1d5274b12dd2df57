"""The frozen plan: a job runs the code and the specification that it was planned with.

Jobs wait for hours and are requeued for days while people edit. Planning therefore keeps a copy
of `deeploop/`, `stages/` and their data files in `store/code/<digest>/`, and the resolved runs in
`store/plans/<digest>.json`; jobs run from those. `results/<suite>/plan.json` points at the newest.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deeploop.errors import BuildError
from deeploop.fileio import (
    dump_json,
    read_json,
    sha256_file,
    sha256_text,
    write_if_changed,
)
from deeploop.plan import Plan, Run, load_plan
from deeploop.project import FROZEN_MARK, code_root, load_registry, stages_home, store_root
from deeploop.stage import Draft, Resources, Stage

DIGEST_LENGTH = 32


def plan_and_freeze(root: Path, suite: str | None) -> tuple[Plan, str]:
    """Plan a suite from a frozen copy of the code, and freeze the plan; return its digest too.

    The digests in the specifications are taken from the copy that jobs will run, so an edit
    that is saved meanwhile cannot come between the two.
    """
    code = freeze_code(root, load_registry(root))
    plan = load_plan(root, suite, code_path(root, code))
    return plan, freeze_plan(root, plan, code)


def freeze_plan(root: Path, plan: Plan, code: str) -> str:
    """Keep a plan in the store, point its suite at it, and return its digest."""
    runs = [_freeze_run(run) for run in plan]
    text = dump_json({"suite": plan.suite, "code": code, "runs": runs})
    digest = sha256_text(text)[:DIGEST_LENGTH]
    write_if_changed(plan_path(root, digest), text)
    pointer = {"plan": digest, "code": code}
    write_if_changed(root / "results" / plan.suite / "plan.json", dump_json(pointer))
    return digest


def freeze_code(root: Path, stages: tuple[Stage, ...]) -> str:
    """Copy the code into the store unless it is there; return its digest."""
    files = _code_files(root, stages)
    digest = sha256_text(dump_json({name: sha256_file(path) for name, path in files.items()}))
    folder = code_path(root, digest[:DIGEST_LENGTH])
    if not folder.is_dir():
        partial = folder.with_name(f".{folder.name}.{os.getpid()}")
        for name, path in files.items():
            target = partial / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (partial / FROZEN_MARK).touch()
        try:
            partial.rename(folder)
        except OSError:  # another planner was first
            shutil.rmtree(partial)
            if not folder.is_dir():
                raise
    return folder.name


def code_path(root: Path, digest: str) -> Path:
    """Return where a frozen copy of the code lies."""
    return store_root(root) / "code" / digest


def plan_path(root: Path, digest: str) -> Path:
    """Return where a frozen plan lies."""
    return store_root(root) / "plans" / f"{digest}.json"


def pointed_plan(root: Path, suite: str) -> str:
    """Return the digest of the plan that the suite was last planned with.

    Raises:
        BuildError: when it has not been planned.
    """
    pointer = read_json(root / "results" / suite / "plan.json")
    if not isinstance(pointer, dict) or "plan" not in pointer:
        raise BuildError(f"suite {suite} has not been planned here: run `dvc repro` or snakemake")
    return str(pointer["plan"])


class FrozenPlan:
    """A plan read back: the same runs, without params.yaml."""

    def __init__(self, root: Path, digest: str) -> None:
        content = read_json(plan_path(root, digest))
        if content is None:
            raise BuildError(f"the plan {digest} is not in the store; plan again")
        self.digest = digest
        self.suite: str = content["suite"]
        self.code: str = content["code"]
        self._content: list[dict[str, Any]] = content["runs"]
        self._root = root

    def runs(self) -> list[Run]:
        """Return the runs in topological order."""
        stages = {stage.name: stage for stage in load_registry(self._root)}
        runs: dict[tuple[str, str], Run] = {}
        for frozen in self._content:
            run = _thaw_run(self.suite, frozen, stages[frozen["stage"]], runs)
            runs[run.stage, run.name] = run
        return list(runs.values())

    def get(self, stage: str, name: str) -> Run:
        """Return one run, by any of its names.

        Raises:
            BuildError: when the plan has no such run.
        """
        for run in self.runs():
            if run.stage == stage and name in (run.name, *run.aliases):
                return run
        raise BuildError(f"the plan that this job was started for has no run {stage}/{name}")

    def spec_text(self, stage: str, name: str) -> str | None:
        """Return the specification a run has in this plan, without loading any stage."""
        for frozen in self._content:
            if frozen["stage"] == stage and frozen["draft"]["name"] == name:
                return dump_json(frozen["spec"])
        return None


def write_specs(root: Path, plan: Plan) -> None:
    """Write the specifications that engines watch; each only when its content changed."""
    folder = root / "results" / plan.suite / "specs"
    for run in plan:
        write_if_changed(root / run.spec_path, run.spec_text)
    current = {run.spec_path.name for run in plan}
    for path in folder.glob("*.json"):
        if path.name not in current:
            path.unlink()


def _code_files(root: Path, stages: tuple[Stage, ...]) -> dict[str, Path]:
    home = stages_home(root)
    files = {
        path.relative_to(base).as_posix(): path
        for base, package in ((code_root(), "deeploop"), (home, "stages"))
        for path in sorted((base / package).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    for stage in stages:
        for glob in stage.data:
            for path in sorted(home.glob(glob)):
                if path.is_file() and "__pycache__" not in path.parts:
                    files[path.relative_to(home).as_posix()] = path
    return files


def _freeze_run(run: Run) -> dict[str, Any]:
    draft = {name: value for name, value in asdict(run.draft).items() if name != "resources"}
    return {
        "stage": run.stage,
        "spec": run.spec,
        "draft": draft | {"inputs": [[up.stage, up.name] for up in run.inputs]},
        "resources": asdict(run.resources),
        "aliases": run.aliases,
    }


def _thaw_run(
    suite: str, frozen: dict[str, Any], stage: Stage, runs: dict[tuple[str, str], Run]
) -> Run:
    draft = Draft(**frozen["draft"], resources=Resources(**frozen["resources"]))
    inputs = tuple(runs[up_stage, up_name] for up_stage, up_name in draft.inputs)
    return Run(
        suite,
        stage.name,
        draft.name,
        frozen["spec"],
        inputs,
        draft,
        stage,
        tuple(frozen["aliases"]),
    )
