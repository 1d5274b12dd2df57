"""Locks: one build at a time in a tree, and one job at a time on a run, across nodes.

The build lock is the kernel's (flock): it dies with its holder, however that ends. A run's lock
is a file created exclusively, because flock does not reach across nodes on every shared file
system; it holds host, process and Slurm job and is touched as long as its holder lives.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from deeploop.errors import BuildError
from deeploop.fileio import read_json

HEARTBEAT_SECONDS = 20.0
DEAD_AFTER_SECONDS = 180.0
"""A holder on another host is dead when its lock was not touched for so long."""


def hold_build_lock(root: Path, who: str, wait: bool) -> IO[str] | None:
    """Take the tree's build lock; keep the returned file open as long as you build.

    Returns None when another process holds the lock and `wait` is false. Says whom it waits for.

    Raises:
        BuildError: when the results folder cannot be written.
    """
    path = root / "results" / ".build.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise BuildError(f"cannot write {path.parent}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another build"
        print(
            f"deeploop: {holder} is building here" + ("; waiting" if wait else "; only reading"),
            file=sys.stderr,
        )
        if not wait:
            return None
        fcntl.flock(file, fcntl.LOCK_EX)
    file.truncate(0)
    file.write(f"{who} (process {os.getpid()} on {socket.gethostname()})\n")
    file.flush()
    return file


class RunLock:
    """The exclusive right to work on one run, as a context manager.

    Raises:
        BuildError: on entering, when a live holder has it; the message names the holder.
    """

    def __init__(self, path: Path, run: str, wait: bool = False) -> None:
        self._path = path
        self._run = run
        self._wait = wait
        self._done = threading.Event()
        self._mine = json.dumps(_myself(), sort_keys=True)

    def __enter__(self) -> RunLock:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        told = False
        while not self._create():
            holder = read_json(self._path)
            if not _is_alive(holder, self._path):
                self._remove(holder)
                continue
            if not (self._wait and holder["host"] == socket.gethostname()):
                raise BuildError(f"{self._run} is being computed by {_describe(holder)}")
            if not told:
                print(f"{self._run}: waiting for {_describe(holder)}", file=sys.stderr, flush=True)
                told = True
            time.sleep(0.5)
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        with suppress(OSError):
            if self._path.read_text(encoding="utf-8") == self._mine:
                self._path.unlink()

    def _create(self) -> bool:
        """Make the lock file whole and exclusively: link a finished file to its name."""
        own = f"{socket.gethostname()}.{os.getpid()}.{threading.get_native_id()}"
        temporary = self._path.with_name(f"{self._path.name}.{own}")
        temporary.write_text(self._mine, encoding="utf-8")
        try:
            os.link(temporary, self._path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    def _remove(self, holder: Any) -> None:
        """Take a dead holder's lock away, unless another has done so in the meantime."""
        aside = self._path.with_name(
            f"{self._path.name}.dead.{os.getpid()}.{threading.get_native_id()}"
        )
        with suppress(FileNotFoundError):
            self._path.rename(aside)
            if read_json(aside) != holder:  # a live one slipped in: give it back
                with suppress(FileExistsError):
                    os.link(aside, self._path)
            aside.unlink()

    def _beat(self) -> None:
        while not self._done.wait(HEARTBEAT_SECONDS):
            with suppress(OSError):
                os.utime(self._path)


def holder_of(path: Path) -> str | None:
    """Return who works on a run, as text, or None when nobody alive does."""
    holder = read_json(path)
    return _describe(holder) if _is_alive(holder, path) else None


def _myself() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "started": _start_of(os.getpid()),
        "slurm_job": os.environ.get("SLURM_JOB_ID", ""),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _describe(holder: dict[str, Any]) -> str:
    job = f", Slurm job {holder['slurm_job']}" if holder.get("slurm_job") else ""
    return f"process {holder['process']} on {holder['host']}{job} since {holder['since']}"


def _is_alive(holder: Any, path: Path) -> bool:
    try:
        if holder["host"] == socket.gethostname():
            return bool(_start_of(holder["process"]) == holder["started"])
        if holder["slurm_job"] and holder["slurm_job"] == os.environ.get("SLURM_JOB_ID"):
            return False  # an earlier attempt of this very job: Slurm has ended it
        return _shared_clock(path.parent) - path.stat().st_mtime < DEAD_AFTER_SECONDS
    except (TypeError, KeyError, OSError):
        return False


def _shared_clock(folder: Path) -> float:
    """Return the file server's time: the hosts that share it need not agree on theirs."""
    probe = folder / f".clock.{socket.gethostname()}.{os.getpid()}.{threading.get_native_id()}"
    probe.touch()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _start_of(process: int) -> str:
    """Return a mark of a process's start, '' when it is gone: process ids are used again."""
    try:
        fields = (
            Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
    except OSError:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
        return "alive"
    return "" if fields[0] == "Z" else fields[19]
