"""The history of a run's Slurm jobs: one JSON line an event, one log file an attempt."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeploop.errors import EXIT_INTERRUPTED


@dataclass(frozen=True)
class History:
    """The events of one run's jobs: `submitted`, `started`, `ended`."""

    root: Path
    suite: str
    stage: str
    run: str

    @property
    def path(self) -> Path:
        """The file of events; no engine knows it, so it outlives retries and requeues."""
        return self._folder / f"{self.run}.jobs.jsonl"

    @property
    def slurm_log(self) -> Path:
        """What Slurm itself says of the run's jobs, appended."""
        return self._folder / f"{self.run}.slurm.log"

    @property
    def _folder(self) -> Path:
        return self.root / "logs" / self.suite / self.stage

    def attempt_log(self, job: str, restart: int) -> Path:
        """Return the log file of one attempt."""
        return self._folder / f"{self.run}.job-{job}-{restart}.log"

    def append(self, event: str, job: str, **values: Any) -> None:
        """Add an event."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        now = time.strftime("%Y-%m-%dT%H:%M:%S")
        line = json.dumps({"event": event, "job": job, "time": now, **values}, sort_keys=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def events(self, event: str) -> list[Mapping[str, Any]]:
        """Return the events of one kind, oldest first."""
        return [record for record in self._records() if record.get("event") == event]

    def ending_of(self, job: str) -> Mapping[str, Any]:
        """Return how a job's last attempt ended; empty when it could not say."""
        own = [record for record in self._records() if record.get("job") == job]
        return own[-1] if own and own[-1].get("event") == "ended" else {}

    def idle_attempts(self, job: str) -> int:
        """Return how many attempts of a job in a row, up to now, got no further."""
        count = 0
        for record in reversed(self.events("ended")):
            if record.get("job") != job or record.get("progressed"):
                break
            count += 1
        return count

    def last_error(self) -> str:
        """Return the last line of the newest attempt if it failed; to be requeued is no failure."""
        for record in reversed(self.events("ended")):
            failed = record.get("code") not in (0, EXIT_INTERRUPTED)
            return str(record.get("said", "")) if failed else ""
        return ""

    def _records(self) -> Iterator[Mapping[str, Any]]:
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except OSError:
            return
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:  # a node died while it wrote
                continue
            if isinstance(record, dict):
                yield record


def last_words(log: Path) -> str:
    """Return the last line of a log file that says something."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
