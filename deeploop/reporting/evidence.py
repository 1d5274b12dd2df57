"""What the paper's claims are judged by: numbers by place, of a build or of the paper itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deeploop.reporting.cells import Cell
from deeploop.reporting.published import AVERAGE, Published

Values = Mapping[int, float]
"""Seed -> number, of the runs that trained."""


@dataclass(frozen=True)
class Outcome:
    """What became of the seeds at one exponent p."""

    word: str
    """`none`, `some` or `all` train."""
    count: str
    """The same in numbers, where they are known."""
    mean: float | None
    """Mean loss of the seeds that train, nats."""
    seeds: int | None
    """None where the number is not published."""


@dataclass(frozen=True)
class Evidence:
    """Numbers by place. A place without a number has no entry, or an empty one."""

    losses: dict[tuple[str, str, int], dict[int, float]] = field(default_factory=dict)
    """(backbone, rule, R) -> validation loss, nats."""
    accuracies: dict[tuple[str, int, str, int, str], dict[int, float]] = field(default_factory=dict)
    """(backbone, shots, rule, R, task) -> percent; the average is a task."""
    votes: dict[tuple[str, int], dict[int, float]] = field(default_factory=dict)
    """(rule, votes) -> percent of puzzles."""
    exponents: dict[float, Outcome] = field(default_factory=dict)

    @property
    def backbones(self) -> tuple[str, ...]:
        """Backbones of which losses are known, in order."""
        return tuple(dict.fromkeys(backbone for backbone, *_ in self.losses))

    def loops(self, backbone: str) -> tuple[int, ...]:
        """Return every R at which a backbone has a place."""
        return tuple(sorted({loops for b, _, loops in self.losses if b == backbone}))

    def loss(self, backbone: str, rule: str, loops: int) -> Values:
        """Return losses by seed."""
        return self.losses.get((backbone, rule, loops), {})

    def accuracy(
        self, backbone: str, shots: int, rule: str, loops: int, task: str = AVERAGE
    ) -> Values:
        """Return accuracies by seed."""
        return self.accuracies.get((backbone, shots, rule, loops, task), {})

    def vote(self, rule: str, votes: int) -> Values:
        """Return shares of puzzles by seed."""
        return self.votes.get((rule, votes), {})


def evidence_of(cells: Iterable[Cell]) -> Evidence:
    """Sort the cells of a build's tables by what they measure; differences are left out."""
    found = Evidence()
    for cell in cells:
        place = cell.where
        if "p" in place:
            found.exponents[float(place["p"])] = _outcome(cell)
        elif (target := _target(found, place)) is not None:
            target.update(
                {s.seed: s.value for s in cell.samples if s.trained and s.value is not None}
            )
    return found


def _target(found: Evidence, place: Mapping[str, Any]) -> dict[int, float] | None:
    """Return where a cell's numbers belong; None for a difference between two rules."""
    rule = place.get("scaling", place.get("rule"))
    if rule is None or " - " in rule:
        return None
    if "task" in place:
        key = (place["backbone"], place["shots"], rule, place["loops"], place["task"])
        return found.accuracies.setdefault(key, {})
    if "votes" in place:
        return found.votes.setdefault((rule, place["votes"]), {})
    return found.losses.setdefault((place["backbone"], rule, place["loops"]), {})


def _outcome(cell: Cell) -> Outcome:
    trained, seeds = sum(sample.trained for sample in cell.samples), len(cell.samples)
    word = "all" if trained == seeds else "some" if trained else "none"
    return Outcome(word, f"{trained} of {seeds}", cell.trained.mean, seeds)


def published_evidence(paper: Published) -> Evidence:
    """Return the paper's numbers: one a place, as its tables print them."""
    columns = (*paper.downstream.tasks, AVERAGE)
    return Evidence(
        losses={
            (backbone, rule, loops): {0: value}
            for backbone, rules in paper.validation_loss.values.items()
            for rule, by_loops in rules.items()
            for loops, value in by_loops.items()
        },
        accuracies={
            (backbone, shots, rule, loops, column): {0: value}
            for backbone, table in paper.downstream.tables.items()
            for shots, rules in table.shots.items()
            for rule, by_loops in rules.items()
            for loops, row in by_loops.items()
            for column, value in zip(columns, row, strict=True)
        },
        votes={
            (rule, votes): {0: value}
            for rule, by_votes in paper.arc_votes.values.items()
            for votes, value in by_votes.items()
        },
        exponents={
            p: Outcome(word, word, paper.p_sweep.trained_mean.get(p), None)
            for p in paper.p_sweep.p
            if (word := paper.p_sweep.fraction(p))
        },
    )
