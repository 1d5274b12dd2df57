"""What a run has taken over all its attempts: interrupted, failed and killed ones count too."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeploop.fileio import dump_json, read_json, write_atomically


@dataclass(frozen=True)
class Spent:
    """Sums over attempts."""

    attempts: int
    seconds: float
    """Wall-clock."""
    cpu_seconds: float
    """Of the process and its children; what a killed attempt used is unknown and counts 0."""


class Attempts:
    """The attempts at a run, in a file beside its work, which goes when the run is done."""

    def __init__(self, folder: Path) -> None:
        """Look at the run's partial folder in the store."""
        self._path = folder / "attempts.json"

    def begin(self, alive: Path) -> None:
        """Note that an attempt starts.

        Args:
            alive: a file that a running attempt writes to: a killed one, which could not say when
                it ended, lasted until it last did.
        """
        known = self._read()
        if known and known[-1]["ended"] is None:
            last = alive.stat().st_mtime if alive.exists() else 0.0
            known[-1]["ended"] = max(last, known[-1]["started"])
        self._write([*known, {"started": time.time(), "ended": None, "cpu_seconds": 0.0}])

    def end(self) -> Spent:
        """Note that the attempt begun last ends here, and return what all took together."""
        usage = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        known = self._read()
        known[-1]["ended"] = time.time()
        known[-1]["cpu_seconds"] = sum(u.ru_utime + u.ru_stime for u in usage)
        self._write(known)
        return Spent(
            attempts=len(known),
            seconds=sum(one["ended"] - one["started"] for one in known),
            cpu_seconds=sum(one["cpu_seconds"] for one in known),
        )

    def _read(self) -> list[dict[str, Any]]:
        known = read_json(self._path)
        return known if isinstance(known, list) else []

    def _write(self, attempts: list[dict[str, Any]]) -> None:
        write_atomically(self._path, dump_json(attempts))
