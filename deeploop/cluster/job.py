"""What a Slurm job runs: `python -m deeploop.cluster.job STAGE RUN --suite S --partial FOLDER`.

It checks that the node's libraries are those the build was planned with, gives each attempt a log
file of its own, and tells its batch script whether to requeue: exit code 75 means so.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from deeploop.cluster.attempts import History, last_words
from deeploop.cluster.settings import Cluster
from deeploop.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USER_ERROR, UserError
from deeploop.plan import Run, public_version
from deeploop.status import last_telemetry
from deeploop.store import Entry

LIBRARIES = "DEEPLOOP_LIBRARIES"
"""Environment variable: `numpy=2.3.1 torch=2.13.0`, as they were where the build was planned."""
ASKED_EARLY = 128 + signal.SIGTERM
"""How the program ends when it is asked to stop before it can listen."""
CAP = "DEEPLOOP_ATTEMPTS_WITHOUT_PROGRESS"


def script_of(run: Run, entry: Entry, cluster: Cluster, environment: Mapping[str, str]) -> str:
    """Return the batch script of a run.

    It is a shell script because requeueing is Slurm's business and the program may be in a
    container that knows no Slurm. A job that was cancelled, or that Slurm requeues itself, is no
    longer `RUNNING` when it has saved, and is left alone.
    """
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    program = [cluster.python or sys.executable, "-P", "-m", "deeploop.cluster.job"]
    program += [run.stage, run.name, "--suite", run.suite, "--partial", str(entry.partial)]
    command = f"{cluster.container or ''} {shlex.join(program)}".strip()
    lines = [
        f"#!/bin/bash{' -l' if cluster.setup else ''}",
        *exports,
        'export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"',
        *cluster.setup,
        "attempt=",
        "trap '[ -n \"$attempt\" ] && kill -TERM $attempt 2>/dev/null' TERM",
        f"{command} &",
        "attempt=$!",
        "wait $attempt; code=$?",
        "while kill -0 $attempt 2>/dev/null; do wait $attempt; code=$?; done",
        f"if [ $code = {EXIT_INTERRUPTED} ] || [ $code = {ASKED_EARLY} ]; then",
        '  if [ "$(squeue --noheader --jobs=$SLURM_JOB_ID --format=%T)" = RUNNING ]; then',
        "    scontrol requeue $SLURM_JOB_ID && { sleep 600 & wait $!; }",
        "  fi",
        "fi",
        "exit $code",
    ]
    return "\n".join(lines) + "\n"


def environment_of(plan: str, code: Path, libraries: Mapping[str, str], cap: int) -> dict[str, str]:
    """Return the variables that tie a job to the build that submitted it."""
    return {
        "DEEPLOOP_PLAN": plan,
        "DEEPLOOP_CODE": str(code),
        "PYTHONPATH": str(code),
        LIBRARIES: " ".join(f"{name}={version}" for name, version in sorted(libraries.items())),
        CAP: str(cap),
    }


def main() -> int:
    """Run one attempt and return its exit code."""
    args = _arguments()
    job, restart = os.environ["SLURM_JOB_ID"], int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    history = History(Path.cwd(), args.suite, args.stage, args.run)
    log = history.attempt_log(job, restart)
    node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    history.append("started", job, restart=restart, node=node)
    before = _progress(args)
    if problem := foreign_libraries(os.environ.get(LIBRARIES, "")):
        log.write_text(f"deeploop: {problem}\n", encoding="utf-8")
        code = EXIT_USER_ERROR
    else:
        code = _attempt(args, log)
    progressed = _progress(args) != before
    history.append(
        "ended", job, restart=restart, code=code, progressed=progressed, said=last_words(log)
    )
    cap = int(os.environ.get(CAP, "3"))
    if code == EXIT_INTERRUPTED and history.idle_attempts(job) >= cap:
        said = f"{args.stage}/{args.run}: given up: {cap} attempts in a row got no further ({log})"
        history.append("ended", job, restart=restart, code=EXIT_FAILURE, said=said, final=True)
        print(f"deeploop: {said}", file=sys.stderr)
        return EXIT_FAILURE
    return code


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage")
    parser.add_argument("run")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--partial", type=Path, required=True)
    return parser.parse_args()


def _attempt(args: argparse.Namespace, log: Path) -> int:
    """Run the stage with its output in `log`; hand SIGTERM on, which asks it to save."""
    command = [sys.executable, "-P", "-m", "deeploop", "run", args.stage, args.run]
    command += ["--suite", args.suite, "--planned"]
    asked: list[int] = []
    with log.open("ab") as file:
        child = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

        def hand_on(number: int, _: object) -> None:
            asked.append(number)
            child.send_signal(signal.SIGTERM)

        signal.signal(signal.SIGTERM, hand_on)
        code = child.wait()
    if asked and code < 0:  # before it could listen
        return EXIT_INTERRUPTED
    return code if code >= 0 else 128 - code


def foreign_libraries(planned: str) -> str:
    """Return what of the planned libraries is not here, in words; '' when all is."""
    wrong = []
    for item in planned.split():
        name, _, version = item.partition("=")
        try:
            here = public_version(name)
        except UserError:
            here = "none"
        if here != version:
            wrong.append(f"{name} {here} (planned with {version})")
    if not wrong:
        return ""
    node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    return (
        f"node {node} has other libraries than the build: {', '.join(wrong)}; {sys.executable}"
        " must be the same environment on every node"
    )


def _progress(args: argparse.Namespace) -> object:
    """Return what changes when a run gets further: its last step, else its saved files.

    A training that is stuck saves its files anew, so steps go first.
    """
    run = Path("results", args.suite, args.stage, args.run)
    for line in reversed(last_telemetry(Path.cwd() / run)):
        if "step" in line:
            return line["step"]
    work = args.partial / "work"
    return sorted((str(p), p.stat().st_mtime_ns) for p in work.rglob("*") if p.is_file())


if __name__ == "__main__":
    sys.exit(main())
