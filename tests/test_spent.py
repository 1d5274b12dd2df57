from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from deeploop.spent import Attempts


def back_date(folder: Path, seconds: float) -> None:
    """Move the attempts on record so far into the past."""
    path = folder / "attempts.json"
    known = json.loads(path.read_text())
    for one in known:
        one["started"] -= seconds
        one["ended"] = one["ended"] and one["ended"] - seconds
    path.write_text(json.dumps(known))


def test_attempts_add_up_and_the_time_between_them_does_not_count(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path)
    attempts.begin(tmp_path / "telemetry.jsonl")
    back_date(tmp_path, 100)
    first = attempts.end()
    assert (first.attempts, first.seconds) == (1, pytest.approx(100, abs=5))
    assert first.cpu_seconds > 0
    back_date(tmp_path, 1000)
    attempts.begin(tmp_path / "telemetry.jsonl")
    both = attempts.end()
    assert (both.attempts, both.seconds) == (2, pytest.approx(100, abs=5))
    assert both.cpu_seconds >= 2 * first.cpu_seconds


def test_a_killed_attempt_lasted_until_its_last_sign_of_life(tmp_path: Path) -> None:
    attempts, alive = Attempts(tmp_path), tmp_path / "telemetry.jsonl"
    attempts.begin(alive)
    back_date(tmp_path, 1000)
    alive.touch()
    last = time.time() - 700
    os.utime(alive, (last, last))
    attempts.begin(alive)
    assert attempts.end().seconds == pytest.approx(300, abs=5)


def test_an_attempt_killed_before_any_sign_of_life_counts_nothing(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path)
    attempts.begin(tmp_path / "never")
    back_date(tmp_path, 1000)
    attempts.begin(tmp_path / "never")
    assert attempts.end().seconds == pytest.approx(0, abs=5)
