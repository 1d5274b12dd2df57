"""Computing one run: find its inputs, take its lock, do the work, and show the result.

Both engines start `deeploop run STAGE RUN --suite S --planned`; it exits 0 when the manifest is
there, 1 for a failure, 2 for a user's mistake, 75 when it was interrupted and can be resumed.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from deeploop.code import CodeDigests
from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.fileio import DigestCache, dump_json, read_json, sha256_text, write_atomically
from deeploop.frozen import FrozenPlan, code_path, pointed_plan
from deeploop.locks import RunLock
from deeploop.plan import Run
from deeploop.project import code_root, is_frozen, stages_home, store_root
from deeploop.spent import Attempts, Spent
from deeploop.stage import Input, Job
from deeploop.store import Entry, Outputs, finish, key_of, publish, published, restore_manifest

log = logging.getLogger("deeploop")


def run_frozen(
    root: Path, digest: str, stage: str, name: str, new_code: bool = False, quiet: bool = False
) -> Path:
    """Compute one run of a frozen plan and return its manifest's path.

    With `quiet`, as engines want it, the terminal gets a line as the run starts and ends, its
    progress, and warnings; the log file has everything in either case.

    Raises:
        BuildError: when inputs are missing, another job has the run, or the work fails.
        UserError: for a mistake in what the run was told to do.
        Interrupted: when it was asked to stop; the same command resumes it.
    """
    plan = FrozenPlan(root, digest)
    run = plan.get(stage, name)
    upstream = [_outputs_of(root, up) for up in run.inputs]
    entry = Entry(store_root(root), run.stage, key_of(run.spec, upstream))
    # On a cluster nobody may wait with GPUs in hand; at home a run left behind by a killed
    # engine is worth waiting for.
    with RunLock(entry.lock, run.id, wait="SLURM_JOB_ID" not in os.environ):
        outputs, known = entry.outputs(), published(root, run)
        if outputs is None and known is not None and known[0] == entry.key:
            print(f"{run.id}: already known; its bytes are elsewhere", file=sys.stderr, flush=True)
            restore_manifest(root, run, known[1])
            return root / run.manifest
        if outputs is None:
            _resume_code(root, entry, run, plan.code, new_code)
            outputs = _compute(root, run, entry, plan, quiet)
        else:
            print(f"{run.id}: already in the store", file=sys.stderr, flush=True)
        _publish_if_planned(root, run, entry, outputs, upstream, plan)
    return root / run.manifest


def enter_code(code: Path) -> None:
    """Go on in a frozen copy of the code: replaces this process, unless it runs there already."""
    if code_root() == code.resolve():
        return
    if not (code / "deeploop").is_dir():
        raise BuildError(f"the frozen code {code.name} is not in the store; plan again")
    environment = {**os.environ, "PYTHONPATH": str(code)}
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, "-P", "-m", "deeploop", *sys.argv[1:]]
    os.execve(sys.executable, command, environment)


def planned_digest(root: Path, suite: str) -> str:
    """Return the plan of the build this job belongs to: its engine's, else the newest."""
    return os.environ.get("DEEPLOOP_PLAN") or pointed_plan(root, suite)


def _resume_code(root: Path, entry: Entry, run: Run, code: str, new_code: bool) -> None:
    """Let an interrupted dear run go on with the code it began with, unless told otherwise."""
    begun = read_json(entry.partial / "job.json")
    if not run.declaration.pinned or new_code or not isinstance(begun, dict):
        return
    if begun["code"] != code and code_path(root, begun["code"]).is_dir():
        enter_code(code_path(root, begun["code"]))


def _outputs_of(root: Path, run: Run) -> Outputs:
    found = published(root, run)
    if found is None:
        raise BuildError(f"{run.id} is not built; it is an input: build it first")
    return found[1]


def _inputs_of(root: Path, run: Run) -> tuple[Input, ...]:
    inputs = []
    for up in run.inputs:
        key, _ = published(root, up) or ("", {})
        entry = Entry(store_root(root), up.stage, key)
        if entry.outputs() is None:
            raise BuildError(
                f"{run.id} needs the bytes of {up.id}, which are not in the store or are damaged:"
                " pull them, or build again (it rebuilds them)"
            )
        inputs.append(Input(up.stage, up.name, entry.outputs_folder))
    return tuple(inputs)


def _compute(root: Path, run: Run, entry: Entry, plan: FrozenPlan, quiet: bool) -> Outputs:
    inputs = _inputs_of(root, run)
    files = _verified_files(root, run)
    resumed = (entry.partial / "work").is_dir()
    folder = entry.partial / "outputs"
    shutil.rmtree(folder, ignore_errors=True)  # what a killed attempt left may be half-written
    folder.mkdir(parents=True)
    (entry.partial / "work").mkdir(exist_ok=True)
    begun = code_root().name if is_frozen() else plan.code
    begun_with = {"code": begun, "spec_sha256": sha256_text(run.spec_text)}
    write_atomically(entry.partial / "job.json", dump_json(begun_with))
    with _logging(root, run, quiet), _stop_signals() as stop:
        job = Job(
            suite=run.suite,
            stage=run.stage,
            run=run.name,
            params=run.spec["params"],
            inputs=inputs,
            files=files,
            folder=folder,
            work=entry.partial / "work",
            execution=run.draft.execution,
            telemetry=root / run.folder / "telemetry.jsonl",
            stop=stop,
        )
        job.telemetry.parent.mkdir(parents=True, exist_ok=True)
        started = time.time()
        attempts = Attempts(entry.partial)
        attempts.begin(alive=job.telemetry)
        log.info("%s: %s", run.id, "resumed" if resumed else "started")
        try:
            _work(run, job)
        finally:
            spent = attempts.end()
        provenance = _provenance(root, run, spent, resumed, plan.digest, begun)
        outputs = finish(entry, run, run.spec_text, provenance)
        log.info("%s: done in %.1f s", run.id, time.time() - started)
    return outputs


def _work(run: Run, job: Job) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", str(job.execution.get("threads", 1)))
    try:
        importlib.import_module(f"stages.{run.stage}").run(job)
    except (UserError, BuildError):
        raise
    except Interrupted:
        log.info("%s: interrupted and saved; the same command resumes it", run.id)
        raise
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise _failure(run, error) from None
        raise BuildError(
            f"{run.id}: {error.strerror}: {error.filename or job.folder}; make room, then run the"
            " same command again"
        ) from None
    except Exception as error:
        raise _failure(run, error) from None


def _failure(run: Run, error: Exception) -> BuildError:
    log.debug("%s failed", run.id, exc_info=error)
    return BuildError(
        f"{run.id} failed: {type(error).__name__}: {error} (the traceback is in {log_path(run)})"
    )


def _verified_files(root: Path, run: Run) -> tuple[Path, ...]:
    """Return the user's files, sure that they still are what was planned."""
    digests = DigestCache(root / "results" / ".digests.json")
    for name, planned in zip(run.draft.files, run.spec["files"], strict=True):
        if not (root / name).is_file() or digests.sha256(root / name) != planned:
            raise BuildError(f"{run.id}: {name} has changed since this was planned: build again")
    return tuple(root / name for name in run.draft.files)


def _publish_if_planned(
    root: Path,
    run: Run,
    entry: Entry,
    outputs: Outputs,
    upstream: Sequence[Outputs],
    plan: FrozenPlan,
) -> None:
    """Show the result, unless the project was planned anew meanwhile and means another one."""
    newest = pointed_plan(root, run.suite)
    if newest != plan.digest:
        spec_text = FrozenPlan(root, newest).spec_text(run.stage, run.name)
        if spec_text != run.spec_text:
            print(f"{run.id}: kept in the store; the plan has moved on", file=sys.stderr)
            return
    publish(root, run, entry, outputs, upstream)


def log_path(run: Run) -> Path:
    """Return a run's log file, relative to the project."""
    return Path("logs", run.suite, run.stage, f"{run.name}.log")


@contextmanager
def _logging(root: Path, run: Run, quiet: bool) -> Iterator[None]:
    """Log to the run's file in full, and to the terminal what a person waits for."""
    path = root / log_path(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = logging.FileHandler(path, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    terminal = logging.StreamHandler()
    terminal.setLevel(logging.INFO)
    terminal.setFormatter(logging.Formatter("%(message)s"))
    terminal.addFilter(lambda record: _is_shown(record, quiet))
    log.setLevel(logging.DEBUG)
    log.propagate = False
    for handler in (file, terminal):
        log.addHandler(handler)
    try:
        yield
    finally:
        for handler in (file, terminal):
            log.removeHandler(handler)
            handler.close()


def _is_shown(record: logging.LogRecord, quiet: bool) -> bool:
    """Say whether a person at the terminal wants a message; progress draws its own."""
    important = record.levelno >= logging.WARNING or record.name == log.name
    return important or not (quiet or record.name == "deeploop.progress")


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn SIGTERM and SIGINT, which may come several times, into a flag that stages poll."""
    asked: list[int] = []
    before = {
        number: signal.signal(number, lambda signum, _: asked.append(signum))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _provenance(
    root: Path, run: Run, spent: Spent, resumed: bool, plan: str, code: str
) -> dict[str, Any]:
    """Return who, when, where, how long, how much: never part of any identity."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "attempts": spent.attempts,
        "code": code,
        "cpu_seconds": round(spent.cpu_seconds, 2),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "git_commit": _git(root, "rev-parse", "HEAD"),
        "git_dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no")),
        "gpu_hours": round(run.resources.gpus * spent.seconds / 3600, 4),
        "host": socket.gethostname(),
        "libraries": {name: metadata.version(name) for name in sorted(run.declaration.libraries)},
        "peak_memory_mb": round(max(u.ru_maxrss for u in usage) / 1024, 1),
        "plan": plan,
        "python": sys.version.split()[0],
        "resumed": resumed,
        "seconds": round(spent.seconds, 2),
        "slurm_job": os.environ.get("SLURM_JOB_ID", ""),
        "stage_code": CodeDigests({"deeploop": code_root(), "stages": stages_home(root)}).digest(
            f"stages.{run.stage}"
        ),
    }


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
