"""Progress of long work: a bar with rate and time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType
from typing import Self, TextIO

from tqdm import tqdm

LINE_SECONDS = 30.0
"""How often a plain line is printed."""

log = logging.getLogger(__name__)


class Progress:
    """Counts `unit`s towards `total`; use as a context manager.

    On a terminal it draws a bar; elsewhere it prints a line now and then. The same line goes to
    the logger `deeploop.progress`, so that a run's log file has it in either case.
    """

    def __init__(
        self,
        label: str,
        total: int,
        unit: str,
        done: int = 0,
        stream: TextIO | None = None,
        line_seconds: float = LINE_SECONDS,
        enabled: bool = True,
    ) -> None:
        """Start counting at `done`, e.g. where a resumed run goes on."""
        self.label, self.total, self.unit = label, total, unit
        self.started_at, self.done = done, done
        self.stream = stream or sys.stderr
        self.enabled = enabled
        self.line_seconds = line_seconds
        self.start = self.last_line = time.monotonic()
        self.fields = ""
        self.bar = tqdm(
            total=total,
            initial=done,
            desc=label,
            unit=f" {unit}",
            unit_scale=True,
            file=self.stream,
            disable=not (enabled and self.stream.isatty()),
            leave=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.close()
        if self.enabled and error is None:
            self._say()

    def advance(self, count: int, **fields: str) -> None:
        """Count `count` more; `fields` (loss, step) are shown beside the rate."""
        self.done += count
        if fields:
            self.fields = " ".join(f"{name} {value}" for name, value in fields.items())
            self.bar.set_postfix_str(self.fields, refresh=False)
        self.bar.update(count)
        if self.enabled and time.monotonic() - self.last_line >= self.line_seconds:
            self._say()

    @property
    def rate(self) -> float:
        """Units a second since the start."""
        return (self.done - self.started_at) / max(time.monotonic() - self.start, 1e-9)

    def line(self) -> str:
        """Return `label: 40 % (2.00M of 5.00M tokens), 6.1k tokens/s, 01:23 gone, 02:01 left`."""
        elapsed = time.monotonic() - self.start
        left = (self.total - self.done) / self.rate if self.rate > 0 else 0.0
        percent = 100 * self.done / self.total if self.total else 100
        size = tqdm.format_sizeof
        parts = [
            f"{self.label}: {percent:.0f} % ({size(self.done)} of {size(self.total)} {self.unit})",
            f"{size(self.rate)} {self.unit}/s",
            f"{tqdm.format_interval(elapsed)} gone",
            f"{tqdm.format_interval(left)} left",
        ]
        return ", ".join([*parts, self.fields] if self.fields else parts)

    def _say(self) -> None:
        self.last_line = time.monotonic()
        line = self.line()
        log.info(line)
        if self.bar.disable:
            print(line, file=self.stream, flush=True)
