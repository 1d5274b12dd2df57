"""Several processes for one training: torchrun as a child that cannot outlive its parent.

The parent holds one end of a pipe that is the workers' standard input: a byte on it asks them to
stop in order, its end says that the parent is dead, so that a killed job leaves nothing behind
that writes beside its successor. Log lines come back as JSON on standard output; how a worker
ended stands in a file.

Runs as `python -m deeploop.training.launch`: torchrun, deaf to SIGTERM and SIGINT. A cluster sends
them to every process of a job, and torchrun would end workers that are about to save.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import IO, Any, ParamSpec

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.training.config import Execution

ARGUMENTS = "arguments.json"
KNOWN: Mapping[str, type[Exception]] = {
    kind.__name__: kind for kind in (Interrupted, UserError, BuildError)
}
GONE = re.compile(r"Connection (closed|reset) by peer|Broken pipe")
"""Gloo's words for a process that is no more."""
POLL_SECONDS = 0.2
MEETING_NODE = "launch-node"
"""Stands for the address of the node that srun was started on, which Slurm tells its tasks: names
need not resolve on a cluster."""
SHUTDOWN_SECONDS = 10
"""What a worker has left when another one died."""

P = ParamSpec("P")

log = logging.getLogger("deeploop")


def in_processes(function: Callable[P, None]) -> Callable[P, None]:
    """Have a function work in as many processes as its execution asks for.

    Called with `execution.processes` above one, and not by torchrun, it is called by torchrun in
    that many processes; its module calls `work_off` with it when it is run. Among its arguments
    are `execution`, `work` and `stop`, as in `run_processes`; all others are paths or JSON.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> None:
        given = dict(signature.bind(*args, **kwargs).arguments)
        known = {k: v for k, v in given["execution"].items() if k in Execution.model_fields}
        run = Execution.model_validate(known)
        if run.processes == 1 or launched():
            function(*args, **kwargs)
            return
        stop = given.pop("stop")
        paths = {name: value for name, value in given.items() if isinstance(value, Path)}
        values = {name: value for name, value in given.items() if name not in paths}
        run_processes(function.__module__, paths, values, run, given["work"], stop)

    return called


def launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def run_processes(
    module: str,
    paths: Mapping[str, Path],
    values: Mapping[str, Any],
    run: Execution,
    work: Path,
    stop: Callable[[], bool],
) -> None:
    """Run a training in `run.processes` processes, wait, and raise what it raised.

    Args:
        module: a module that calls `work_off` with its training when it is run.
        paths: the training's arguments that are paths.
        values: its other arguments but `stop`, as JSON.
        run: how many processes, on how many nodes.
        work: folder shared by all nodes.
        stop: polled; once true, the workers are asked to stop.

    Raises:
        Interrupted: the workers stopped in order and saved.
        UserError: what they were told does not fit together.
        BuildError: they failed.
    """
    folder = work / "launch"
    shutil.rmtree(folder, ignore_errors=True)  # how an earlier attempt ended
    folder.mkdir(parents=True)
    arguments = {"paths": {k: str(v.resolve()) for k, v in paths.items()}, "values": dict(values)}
    (folder / ARGUMENTS).write_text(json.dumps(arguments))
    with subprocess.Popen(
        [*command(run), "-m", module, str(folder.resolve())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(run),
        start_new_session=True,  # Ctrl-C reaches the parent only
    ) as child:
        _attend(child, stop)
    _raise_outcome(folder, child.returncode)


def work_off(train: Callable[..., None]) -> None:
    """Run a training as one of the processes that `run_processes` started."""
    folder, first = Path(sys.argv[1]), os.environ["RANK"] == "0"
    arguments = json.loads((folder / ARGUMENTS).read_text())
    paths = {name: Path(path) for name, path in arguments["paths"].items()}
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # a cluster may signal the workers directly
        signal.signal(number, lambda *_: asked.set())
    if first:
        threading.Thread(target=_obey, args=(asked,), daemon=True).start()
        _log_as_json()
    else:
        log.setLevel(logging.CRITICAL)  # the first speaks for all
    code = 0
    try:
        train(**paths, **arguments["values"], stop=asked.is_set)
    except Exception as error:
        _record(folder, error)
        if type(error).__name__ not in KNOWN:
            log.exception("rank %s failed", os.environ["RANK"])
            traceback.print_exc()
            code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # all is written; torch's threads may wait for one another at a normal exit


def command(run: Execution) -> list[str]:
    """Return torchrun's command line up to the program: alone, or once a node under Slurm.

    Raises:
        UserError: the nodes do not divide the processes, or are not Slurm's.
    """
    if run.processes % run.nodes:
        raise UserError(
            f"execution.nodes {run.nodes} does not divide execution.processes {run.processes}"
        )
    torchrun = [sys.executable, "-P", "-m", "deeploop.training.launch"]
    torchrun += [f"--nproc-per-node={run.processes // run.nodes}", "--signals-to-handle=SIGQUIT"]
    torchrun += [f"--shutdown-timeout={SHUTDOWN_SECONDS}"]
    if run.nodes == 1:
        return [*torchrun, "--standalone"]
    if "SLURM_JOB_ID" not in os.environ:
        raise UserError(
            "execution.nodes is more than 1, which needs a Slurm job to find the other nodes: "
            "use the slurm profile, or one node"
        )
    meeting = f"--rdzv-endpoint={MEETING_NODE}:{_free_port()}"
    srun = ["srun", f"--nodes={run.nodes}", "--ntasks-per-node=1", "--overlap"]
    srun += ["--kill-on-bad-exit=1"]
    name = f"--rdzv-id={os.environ['SLURM_JOB_ID']}"
    return [*srun, *torchrun, f"--nnodes={run.nodes}", "--rdzv-backend=c10d", meeting, name]


def _environment(run: Execution) -> dict[str, str]:
    """Return an environment in which workers run this very code, wherever they start."""
    code = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": f"{code}{os.pathsep}{inherited}" if inherited else code,
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": str(run.threads),
        # DDP warns of what `Trainer` needs, once a process.
        "TORCH_CPP_LOG_LEVEL": os.environ.get("TORCH_CPP_LOG_LEVEL", "ERROR"),
    }


def _attend(child: subprocess.Popen[str], stop: Callable[[], bool]) -> None:
    """Relay the child's log until it ends, and `stop` to it."""
    assert child.stdin is not None and child.stdout is not None
    relay = threading.Thread(target=_relay, args=(child.stdout,), daemon=True)
    relay.start()
    asked = False
    while child.poll() is None:
        if not asked and stop():
            asked = True
            try:
                child.stdin.write("s")
                child.stdin.flush()
            except BrokenPipeError:  # it has just ended by itself
                break
        time.sleep(POLL_SECONDS)
    relay.join()


def _relay(lines: IO[str]) -> None:
    for line in lines:
        try:
            record = json.loads(line)
            name, level, message = record["name"], record["level"], record["message"]
        except (ValueError, TypeError, KeyError):
            log.debug(line.rstrip())  # a library's print
            continue
        logging.getLogger(name).log(level, "%s", message)


def _raise_outcome(folder: Path, code: int) -> None:
    """Raise the first error of any worker: later ones are its consequences.

    A worker that was killed leaves none; the others' complaint that it is gone tells nothing.
    """
    found = [json.loads(path.read_text()) for path in folder.glob("rank-*.json")]
    found = [record for record in found if not GONE.search(record["message"])]
    if found:
        first = min(found, key=lambda record: record["time"])
        if first["kind"] in KNOWN:
            raise KNOWN[first["kind"]](first["message"])
        raise BuildError(f"{first['kind']} in process {first['rank']}: {first['message']}")
    if code:
        raise BuildError(
            f"the training processes ended with exit code {code}: killed from outside, or out of "
            "memory; the same command resumes"
        )


def _record(folder: Path, error: Exception) -> None:
    rank = os.environ["RANK"]
    record = {
        "kind": type(error).__name__,
        "message": str(error),
        "rank": int(rank),
        "time": time.time(),
    }
    partial = folder / f"rank-{rank}.partial"
    partial.write_text(json.dumps(record))
    partial.replace(folder / f"rank-{rank}.json")


def _obey(asked: threading.Event) -> None:
    while os.read(0, 1):
        asked.set()
    os._exit(1)  # the parent is dead: save nothing, its successor may be at work


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = super().format(record)
        return json.dumps({"name": record.name, "level": record.levelno, "message": message})


def _log_as_json() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_JsonFormatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def _torchrun() -> None:
    from torch.distributed.run import main

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    arguments = sys.argv[1:]
    if meeting := os.environ.get("SLURM_LAUNCH_NODE_IPADDR"):
        arguments = [argument.replace(MEETING_NODE, meeting) for argument in arguments]
        if any(meeting in argument for argument in arguments):
            arguments.insert(0, f"--local-addr={_address_towards(meeting)}")
    main(arguments)


def _address_towards(other: str) -> str:
    """Return this node's address on the network that leads to another; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((other, 9))
        address: str = probe.getsockname()[0]
        return address


if __name__ == "__main__":
    _torchrun()
