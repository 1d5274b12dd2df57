from __future__ import annotations

import io
import logging

import pytest

from deeploop.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_with_rate_and_time_left() -> None:
    screen = Terminal()
    with Progress("small-base-r1-s0", total=4000, unit="tokens", stream=screen) as progress:
        for _ in range(4):
            progress.bar.mininterval = 0
            progress.advance(1000, loss="3.1")
    shown = screen.getvalue()
    assert "small-base-r1-s0" in shown and "tokens/s" in shown and "loss 3.1" in shown
    assert "\r" in shown


def test_elsewhere_plain_lines_are_printed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    file = io.StringIO()
    with (
        caplog.at_level(logging.INFO, "deeploop"),
        Progress("build", total=4, unit="tasks", stream=file, line_seconds=0) as progress,
    ):
        progress.advance(1, loss="3.1")
        progress.advance(3)
    lines = file.getvalue().splitlines()
    assert lines[0].startswith("build: 25 % (1.00 of 4.00 tasks), ")
    assert lines[0].endswith("left, loss 3.1")
    assert "100 %" in lines[-1] and "\r" not in file.getvalue()
    assert caplog.messages == lines


def test_a_resumed_run_counts_its_own_rate_from_where_it_goes_on() -> None:
    progress = Progress("build", total=100, unit="tasks", done=90, stream=io.StringIO())
    assert progress.rate == 0
    progress.advance(5)
    assert "95 %" in progress.line()


def test_other_processes_are_silent() -> None:
    file = io.StringIO()
    with Progress("build", 2, "tasks", stream=file, line_seconds=0, enabled=False) as progress:
        progress.advance(2)
    assert file.getvalue() == ""
