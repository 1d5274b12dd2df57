"""DeepLoop against base on the same questions: the difference, its error, and a paired test.

Two models are asked the same questions, so the standard errors of their accuracies say little of
the difference between them: it is taken a question at a time (McNemar's exact test for one task).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean

from deeploop.evaluation.compare import Difference, compare
from deeploop.evaluation.results import SAMPLES
from deeploop.reporting.entries import ABSENT, number
from deeploop.reporting.exhibits import Entry, Group, Row
from deeploop.reporting.names import backbone_name
from deeploop.reporting.published import AVERAGE, published
from deeploop.reporting.runs import PlacedRun

DIGITS = 2
Z = 1.959964
"""Standard errors in half a 95 % interval."""

Pairs = Mapping[tuple[str, int, int, str], Sequence[Difference]]
"""(backbone, R, shots, task) -> a difference for each seed."""


def pairs(runs: Sequence[PlacedRun]) -> Pairs:
    """Compare DeepLoop with base wherever both were evaluated with one backbone, R and seed."""
    found: dict[tuple[str, int, int, str], list[Difference]] = {}
    folders = {_key(run, str(run.cell["scaling"])): run.folder for run in runs if _asked(run)}
    for run in runs:
        base = folders.get(_key(run, "base"))
        if run.cell["scaling"] == "deeploop" and base is not None and _asked(run) and run.folder:
            for one in compare(base, run.folder):
                task = AVERAGE if one.task == "average" else one.task
                place = (run.cell["backbone"], run.cell["loops"], one.shots, task)
                found.setdefault(place, []).append(one)
    return found


def _key(run: PlacedRun, rule: str) -> tuple[str, int, int, str]:
    return run.cell["backbone"], run.cell["loops"], run.cell["seed"], rule


def _asked(run: PlacedRun) -> bool:
    """Say whether it is known which questions the model answered right."""
    if run.folder is None or not (run.folder / SAMPLES).is_file():
        return False
    shots = run.evaluation().shots.values()
    return any(task.n for tasks in shots for task in tasks.values())  # none: it diverged


def pair_groups(found: Pairs, columns: Sequence[str], beside: Mapping[str, str]) -> list[Group]:
    """Return a group of lines for each backbone and number of shots, a line for each R.

    Args:
        found: Differences.
        columns: Tasks and average, as the table has them.
        beside: backbone -> the published backbone that stands beside it.
    """
    kinds = dict.fromkeys((backbone, shots) for backbone, _, shots, _ in found)
    groups = []
    for backbone, shots in sorted(kinds):
        loops = sorted({r for b, r, s, _ in found if (b, s) == (backbone, shots)})
        rows = tuple(
            Row(
                label=f"R\u00a0=\u00a0{r}",
                entries=tuple(
                    _entry(found.get((backbone, r, shots, column), ()), paper)
                    for column in columns
                    for paper in [_published(beside[backbone], shots, r, column)]
                ),
            )
            for r in loops
        )
        name = "" if len(beside) == 1 else f"{backbone_name(backbone)}, "
        label = f"{name}{shots}-shot, DeepLoop − base on the same questions"
        groups.append(Group(label=label, rows=rows))
    return groups


def _published(backbone: str, shots: int, loops: int, column: str) -> float | None:
    deeploop, base = (
        published().accuracy(backbone, shots, rule, loops, column) for rule in ("deeploop", "base")
    )
    return None if deeploop is None or base is None else deeploop - base


def _entry(seeds: Sequence[Difference], paper: float | None) -> Entry:
    beside = number(paper, DIGITS, signed=True)
    if not seeds:
        return Entry(text=ABSENT, published=beside, mark="absent")
    mean = 100 * fmean(one.difference for one in seeds)
    half = 100 * Z * sqrt(sum(one.stderr**2 for one in seeds)) / len(seeds)
    chance = seeds[0].p_value if len(seeds) == 1 else None
    return Entry(
        text=number(mean, DIGITS, signed=True),
        spread=f"± {number(half, DIGITS)}",
        detail="" if chance is None else f"p = {chance:.2g}",
        published=beside,
        difference="" if paper is None else number(mean - paper, DIGITS, signed=True),
        sort=mean,
    )
