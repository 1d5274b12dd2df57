"""The state of every run of a suite: built, missing, stale, running, and whether code moved on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from deeploop.cluster.attempts import History
from deeploop.cluster.queue import QueuedJob, comment_of, live_job, own_jobs
from deeploop.code import CACHE, CodeDigests
from deeploop.explain import external, reasons
from deeploop.fileio import read_json
from deeploop.locks import holder_of
from deeploop.plan import Run, public_version
from deeploop.project import code_root, stages_home, store_root
from deeploop.resolve import Resolver
from deeploop.store import Entry, was_built

SLURM_SECONDS = 5.0
"""How long `status` waits for Slurm's queue before it goes on without."""


@dataclass(frozen=True)
class State:
    """What is known of one run."""

    stage: str
    run: str
    state: str
    """`built`, `elsewhere` (known, bytes not here), `stale`, `missing`, `waiting` (on others),
    `queued`, `interrupted` or `running`."""
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
    code = CodeDigests({"deeploop": code_root(), "stages": home}, resolver.root / CACHE)
    queue = _queue(resolver)
    for run in resolver.plan:
        yield _state(resolver, run, code, queue)


def _queue(resolver: Resolver) -> list[QueuedJob]:
    """Return the user's Slurm jobs; not asked for when no run that is to be built had one."""
    histories = (_history(resolver.root, run) for run in resolver.computing())
    if not any(history.path.is_file() for history in histories):
        return []
    return own_jobs(SLURM_SECONDS) or []


def _history(root: Path, run: Run) -> History:
    return History(root, run.suite, run.stage, run.name)


def _state(resolver: Resolver, run: Run, code: CodeDigests, queue: list[QueuedJob]) -> State:
    if resolver.is_current(run):
        name = "elsewhere" if resolver.is_absent(run) else "built"
        changed = tuple(_changed_since(resolver.root, run, code))
        return State(run.stage, run.name, name, (), changed, external(run))
    why = tuple(reasons(resolver, run))
    if not resolver.is_computing(run):
        return State(run.stage, run.name, "waiting", why)
    entry = Entry(store_root(resolver.root), run.stage, resolver.keys[run])
    job = live_job(comment_of(entry.folder), queue)
    notes = (*_progress(resolver.root, run), *_attempts(_history(resolver.root, run)))
    if work := _work(job, holder_of(entry.lock)):
        name, where = work
        return State(run.stage, run.name, name, (where, *notes))
    if entry.partial.is_dir():
        return State(run.stage, run.name, "interrupted", notes)
    name = "stale" if was_built(resolver.root, run) else "missing"
    return State(run.stage, run.name, name, (*why, *notes))


def _work(job: QueuedJob | None, holder: str | None) -> tuple[str, str] | None:
    """Return `running` and where, or `queued` and why; None when nobody is at the run."""
    if job and job.nodes:
        return "running", f"{job.nodes}, Slurm job {job.id}"
    if holder:
        return "running", holder
    if job:
        reason = "" if job.reason == "None" else f": {job.reason}"  # Slurm has not looked at it
        return "queued", f"Slurm job {job.id}{reason}"
    return None


def _attempts(history: History) -> Iterator[str]:
    """Yield how often a run's Slurm jobs were begun, and what the last one that failed said."""
    if attempts := len(history.events("started")):
        yield f"attempt {attempts}"
    if said := history.last_error():
        yield f"last error: {said}"


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


def last_telemetry(folder: Path) -> list[Mapping[str, Any]]:
    """Return the last lines of a run's telemetry, oldest first."""
    try:
        with (folder / "telemetry.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 8192))
            tail = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return list(_whole(tail))


def _whole(lines: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:  # the tail begins, or a node died, in the midst of it
            continue
        if isinstance(line, Mapping):
            yield line


def _progress(root: Path, run: Run) -> Iterator[str]:
    """Yield how far a run is, how fast, and how long it will take from here."""
    lines = [line for line in last_telemetry(root / run.folder) if "step" in line]
    if not lines:
        return
    step, steps = lines[-1]["step"], lines[-1].get("steps")
    yield f"step {step} of {steps}" if steps else f"step {step}"
    rates = [line for line in lines if any(key.endswith("_per_second") for key in line)]
    for key, value in rates[-1].items() if rates else ():
        if key.endswith("_per_second") and not key.startswith("flops"):
            yield f"{value:,.0f} {key.removesuffix('_per_second')}/s"
    if steps and len(rates) > 1 and rates[-1]["step"] > rates[-2]["step"]:
        before, last = rates[-2:]
        pace = (last["time"] - before["time"]) / (last["step"] - before["step"])
        yield f"{timedelta(seconds=round(pace * (steps - step)))} left"
