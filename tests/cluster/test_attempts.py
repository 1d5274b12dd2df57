"""The history of a run's jobs."""

from __future__ import annotations

from pathlib import Path

from deeploop.cluster.attempts import History, last_words


def history(root: Path) -> History:
    return History(root, "smoke", "train", "a")


def test_only_attempts_in_a_row_without_progress_count(tmp_path: Path) -> None:
    past = history(tmp_path)
    assert past.idle_attempts("7") == 0
    for progressed in (False, True, False, False):
        past.append("started", "7")
        past.append("ended", "7", code=75, progressed=progressed)
    assert past.idle_attempts("7") == 2
    assert past.idle_attempts("8") == 0


def test_a_job_that_could_not_say_how_it_ended_says_nothing(tmp_path: Path) -> None:
    past = history(tmp_path)
    past.append("started", "7")
    past.append("ended", "7", code=75, said="saved")
    past.append("started", "7")
    assert past.ending_of("7") == {}
    past.append("ended", "7", code=2, said="batch is odd")
    assert past.ending_of("7")["code"] == 2
    assert past.last_error() == "batch is odd"
    past.append("ended", "7", code=75, said="saved; the same command resumes")
    assert past.last_error() == ""


def test_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    past = history(tmp_path)
    past.append("started", "7")
    with past.path.open("a") as file:
        file.write('{"event": "en\n')
    past.append("ended", "7", code=0)
    assert past.ending_of("7")["code"] == 0


def test_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_words(log) == ""
    log.write_text("one\n  two \n\n")
    assert last_words(log) == "two"
