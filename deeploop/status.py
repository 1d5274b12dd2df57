"""The state of every run of a suite: built, missing, stale, running, and whether code moved on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deeploop.code import CodeDigests
from deeploop.explain import external, reasons
from deeploop.fileio import read_json
from deeploop.locks import holder_of
from deeploop.plan import Run, public_version
from deeploop.project import code_root, stages_home, store_root
from deeploop.resolve import Resolver
from deeploop.store import Entry, was_built


@dataclass(frozen=True)
class State:
    """What is known of one run."""

    stage: str
    run: str
    state: str
    """`built`, `elsewhere` (known, bytes not here), `stale`, `missing`, `waiting` (on others),
    `interrupted` or `running`."""
    why: tuple[str, ...] = ()
    """Why it is not built; who runs it and how far it is."""
    changed_since: tuple[str, ...] = ()
    """For a pinned run: what of code and libraries is not what it was built with."""
    external: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def states(resolver: Resolver) -> Iterator[State]:
    """Yield the state of each run, in plan order."""
    home = stages_home(resolver.root)
    code = CodeDigests({"deeploop": code_root(), "stages": home})
    for run in resolver.plan:
        yield _state(resolver, run, code)


def _state(resolver: Resolver, run: Run, code: CodeDigests) -> State:
    if resolver.is_current(run):
        name = "elsewhere" if resolver.is_absent(run) else "built"
        changed = tuple(_changed_since(resolver.root, run, code))
        return State(run.stage, run.name, name, (), changed, external(run))
    why = tuple(reasons(resolver, run))
    if not resolver.is_computing(run):
        return State(run.stage, run.name, "waiting", why)
    entry = Entry(store_root(resolver.root), run.stage, resolver.keys[run])
    if holder := holder_of(entry.lock):
        return State(run.stage, run.name, "running", (holder, *_progress(resolver.root, run)))
    if entry.partial.is_dir():
        return State(run.stage, run.name, "interrupted", (*_progress(resolver.root, run),))
    return State(run.stage, run.name, "stale" if was_built(resolver.root, run) else "missing", why)


def _changed_since(root: Path, run: Run, code: CodeDigests) -> Iterator[str]:
    """Yield what of a pinned run's code and libraries has changed since it was built."""
    provenance = read_json(root / run.folder / "provenance.json")
    if not run.declaration.pinned or not isinstance(provenance, Mapping):
        return
    if provenance.get("stage_code") not in (None, code.digest(f"stages.{run.stage}")):
        yield "code"
    for name, version in provenance.get("libraries", {}).items():
        now = public_version(name)
        if version.partition("+")[0] != now:
            yield f"{name} {version} -> {now}"


def last_telemetry(folder: Path) -> Mapping[str, Any]:
    """Return the last line of a run's telemetry; empty when there is none."""
    try:
        with (folder / "telemetry.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4096))
            last = json.loads(file.read().decode("utf-8", "replace").splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return {}
    return last if isinstance(last, Mapping) else {}


def _progress(root: Path, run: Run) -> Iterator[str]:
    """Yield how far a run is, from the last line of its telemetry."""
    last = last_telemetry(root / run.folder)
    if "step" not in last:
        return
    of = f" of {last['steps']}" if "steps" in last else ""
    yield f"step {last['step']}{of}"
    for key, value in last.items():
        if key.endswith("_per_second"):
            yield f"{value:,.0f} {key.removesuffix('_per_second')}/s"
