from __future__ import annotations

from math import comb, sqrt
from pathlib import Path

import numpy as np
import pytest

from deeploop.errors import UserError
from deeploop.evaluation.compare import compare
from deeploop.evaluation.results import TaskResult, write_results


def _write(folder: Path, right: dict[str, list[int]], shots: int = 0, prompt: str = "p") -> Path:
    results = []
    for task, marks in right.items():
        rows = [
            {
                "task": task,
                "shots": shots,
                "doc": number,
                "doc_hash": f"{task} {number}",
                "prompt_hash": prompt,
                "choice": choice,
                "loglikelihood": -1.0 - choice,
                "greedy": False,
                "gold": 0,
                "correct": bool(mark),
                "response": None,
            }
            for number, mark in enumerate(marks)
            for choice in range(2)
        ]
        summary = {"acc": sum(marks) / len(marks), "stderr": 0.0, "n": len(marks)}
        results.append(TaskResult(task, shots, summary, rows))
    write_results(folder, results, {"source": "samples"})
    return folder


def test_differences_are_taken_question_by_question(tmp_path: Path) -> None:
    a, b = [1, 1, 1, 0, 0, 0, 1, 0, 1, 0], [1, 0, 1, 1, 1, 1, 1, 1, 1, 1]
    left = _write(tmp_path / "a", {"piqa": a, "sciq": [1, 0, 1, 0]})
    right = _write(tmp_path / "b", {"piqa": b, "sciq": [1, 0, 0, 0]})
    piqa, sciq, average = compare(left, right)
    assert (piqa.task, piqa.n, piqa.a, piqa.b) == ("piqa", 10, 0.5, 0.9)
    assert (piqa.only_a, piqa.only_b) == (1, 5)
    assert piqa.p_value == pytest.approx(2 * sum(comb(6, k) for k in (0, 1)) / 2**6)
    assert piqa.stderr == pytest.approx(np.std(np.subtract(b, a), ddof=1) / sqrt(10))
    low, high = piqa.interval
    assert (low + high) / 2 == pytest.approx(0.4)
    assert high - low == pytest.approx(2 * 1.959964 * piqa.stderr)
    assert average.difference == pytest.approx((0.4 - 0.25) / 2)
    assert average.stderr == pytest.approx(sqrt(piqa.stderr**2 + sciq.stderr**2) / 2)


def test_a_run_against_itself_is_no_difference(tmp_path: Path) -> None:
    folder = _write(tmp_path / "a", {"piqa": [1, 0, 1]}, shots=1)
    (piqa, _) = compare(folder, folder)
    assert (piqa.difference, piqa.stderr, piqa.p_value, piqa.shots) == (0.0, 0.0, 1.0, 1)


def test_only_what_both_were_asked_alike_is_compared(tmp_path: Path) -> None:
    one = _write(tmp_path / "a", {"piqa": [1, 0, 1], "sciq": [1, 1]})
    assert [d.task for d in compare(one, _write(tmp_path / "b", {"piqa": [1, 1, 1]}))] == [
        "piqa",
        "average",
    ]
    with pytest.raises(UserError, match="share no task at one shot count"):
        compare(one, _write(tmp_path / "c", {"piqa": [1, 0, 1]}, shots=1))
    with pytest.raises(UserError, match="task piqa, 0-shot: document 0 is not asked alike"):
        compare(one, _write(tmp_path / "d", {"piqa": [1, 0, 1]}, prompt="other"))
    with pytest.raises(UserError, match="document 2 is not asked alike"):
        compare(one, _write(tmp_path / "e", {"piqa": [1, 0]}))
    with pytest.raises(UserError, match=r"holds no samples\.parquet"):
        compare(one, tmp_path)
