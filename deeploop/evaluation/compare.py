"""Two evaluations, document by document: which model is better on the same questions.

The standard errors of two accuracies say little about their difference, because both models were
asked the same questions: here the difference is taken a question at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from scipy.stats import binomtest, norm

from deeploop.errors import UserError
from deeploop.evaluation.results import SAMPLES

KEY = ["task", "shots", "doc"]
Z = float(norm.ppf(0.975))


@dataclass(frozen=True)
class Difference:
    """Accuracy of B minus accuracy of A on one task, or on the average of several."""

    task: str
    shots: int
    n: int
    """Questions (tasks, for the average)."""
    a: float
    b: float
    stderr: float
    """Of the difference, over questions."""
    only_a: int | None = None
    """Questions that A alone answers right."""
    only_b: int | None = None
    p_value: float | None = None
    """McNemar's exact test: as uneven a split of the questions that only one of them answers."""

    @property
    def difference(self) -> float:
        """B minus A."""
        return self.b - self.a

    @property
    def interval(self) -> tuple[float, float]:
        """The difference's 95 % confidence interval."""
        return self.difference - Z * self.stderr, self.difference + Z * self.stderr


def compare(a: Path, b: Path) -> list[Difference]:
    """Compare the tasks and shot counts that two result folders share; averages come last.

    Raises:
        UserError: a folder holds no samples, nothing is shared, or the questions differ.
    """
    both = _paired(_documents(a), _documents(b))
    found = [
        _difference(str(task), int(shots), group)
        for (task, shots), group in both.group_by("task", "shots", maintain_order=True)
    ]
    return [*found, *_averages(found)]


def _documents(folder: Path) -> pl.DataFrame:
    """Return a row a document that is right or wrong."""
    path = folder / SAMPLES
    if not path.is_file():
        raise UserError(f"{folder} holds no {SAMPLES}: name the folder of an evaluation's results")
    columns = [*KEY, "doc_hash", "prompt_hash", "correct"]
    table = pl.read_parquet(path, columns=columns)
    return table.filter(pl.col("correct").is_not_null()).unique(KEY).sort(KEY)


def _paired(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    shared = a.select("task", "shots").unique().join(b.select("task", "shots").unique(), on=KEY[:2])
    if shared.is_empty():
        raise UserError("the two evaluations share no task at one shot count")
    both = a.join(b, on=KEY, how="full", coalesce=True, suffix="_b").join(shared, on=KEY[:2])
    same = pl.all_horizontal(
        pl.col(name).eq_missing(pl.col(f"{name}_b")) for name in ("doc_hash", "prompt_hash")
    )
    other = both.filter(~same).sort(KEY)
    if not other.is_empty():
        task, shots, document = other.select(KEY).row(0)
        raise UserError(
            f"task {task}, {shots}-shot: document {document} is not asked alike in both: other "
            "data, limit or version of the harness"
        )
    return both.sort(KEY)


def _difference(task: str, shots: int, both: pl.DataFrame) -> Difference:
    a, b = both["correct"].cast(pl.Int8), both["correct_b"].cast(pl.Int8)
    gains = b - a
    only_a, only_b = int((gains < 0).sum()), int((gains > 0).sum())
    deviation = float(gains.std() or 0.0)  # type: ignore[arg-type]
    return Difference(
        task,
        shots,
        len(both),
        float(a.mean()),  # type: ignore[arg-type]
        float(b.mean()),  # type: ignore[arg-type]
        deviation / math.sqrt(len(both)),
        only_a,
        only_b,
        float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0,
    )


def _averages(found: Sequence[Difference]) -> list[Difference]:
    averages = []
    for shots in dict.fromkeys(one.shots for one in found):
        of = [one for one in found if one.shots == shots]
        stderr = math.sqrt(sum(one.stderr**2 for one in of)) / len(of)
        a, b = (sum(values) / len(of) for values in zip(*((d.a, d.b) for d in of), strict=True))
        averages.append(Difference("average", shots, len(of), a, b, stderr))
    return averages
