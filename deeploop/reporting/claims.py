"""The paper's statements about its results, each with the rule that it is judged by.

Every statement is judged twice: on this build's numbers and on the published ones. The rules are
for any backbone that the numbers have, unless the statement names one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import fmean

from deeploop.reporting.entries import number
from deeploop.reporting.evidence import Evidence
from deeploop.reporting.judging import Judgement, Part, differences, judge, missing, within, yes
from deeploop.reporting.names import backbone_name, rule_name
from deeploop.reporting.published import AVERAGE, published
from deeploop.reporting.record import Record

NEUTRAL_NATS = 0.005
"""Losses closer than this count as equal: a third of the least gain that the paper reports."""
NEUTRAL_POINTS = 0.25
"""Averages closer than this count as equal: the paper's own bound (appendix 9)."""
SHOTS = (0, 1)
TASKS_WON = 7


class Claim(Record):
    """A statement of the paper, judged."""

    name: str
    statement: str
    source: str
    """Where the paper makes it."""
    rule: str
    """How it is judged."""
    build: Judgement
    published: Judgement


@dataclass(frozen=True)
class _Statement:
    name: str
    text: str
    source: str
    rule: str
    parts: Callable[[Evidence], Iterator[Part]]


def claims(build: Evidence, paper: Evidence) -> tuple[Claim, ...]:
    """Judge every statement on a build's numbers and on the paper's."""
    return tuple(
        Claim(
            name=statement.name,
            statement=statement.text,
            source=statement.source,
            rule=statement.rule,
            build=judge(list(statement.parts(build))),
            published=judge(list(statement.parts(paper))),
        )
        for statement in _STATEMENTS
    )


def _gap(numbers: Evidence, backbone: str, loops: int) -> list[float]:
    """Return DeepLoop minus base in nats, a seed each."""
    base, deeploop = (numbers.loss(backbone, rule, loops) for rule in ("base", "deeploop"))
    return differences(deeploop, base)


def _average_gap(numbers: Evidence, backbone: str, shots: int, loops: int) -> list[float]:
    base, deeploop = (numbers.accuracy(backbone, shots, r, loops) for r in ("base", "deeploop"))
    return differences(deeploop, base)


def _at(backbone: str, loops: int) -> str:
    return f"{backbone_name(backbone)} R = {loops}"


def _neutral_at_one(numbers: Evidence) -> Iterator[Part]:
    for backbone in numbers.backbones:
        gap = _gap(numbers, backbone, 1)
        yield within(_at(backbone, 1), gap, -NEUTRAL_NATS, NEUTRAL_NATS, 4)


def _better_when_looped(numbers: Evidence) -> Iterator[Part]:
    for backbone in numbers.backbones:
        for loops in numbers.loops(backbone):
            if loops >= 3:
                yield within(_at(backbone, loops), _gap(numbers, backbone, loops), -inf, 0.0, 4)


def _monotone_in_loops(numbers: Evidence) -> Iterator[Part]:
    for backbone in numbers.backbones:
        for rule in ("base", "deeploop"):
            for few, many in pairwise(numbers.loops(backbone)):
                label = f"{backbone_name(backbone)} {rule_name(rule)} R = {few} to {many}"
                less = numbers.loss(backbone, rule, few)
                more = numbers.loss(backbone, rule, many)
                yield within(label, differences(more, less), -inf, 0.0, 4)


def _gap_widens(numbers: Evidence) -> Iterator[Part]:
    gaps = {r: _gap(numbers, "medium", r) for r in published().training.loops}
    yield from _growing({r: [-value for value in gap] for r, gap in gaps.items()}, "medium", 4)


def _average_gap_widens(numbers: Evidence) -> Iterator[Part]:
    gaps = {r: _average_gap(numbers, "medium", 0, r) for r in published().training.loops if r > 1}
    yield from _growing(gaps, "medium", 2)


def _growing(gaps: dict[int, list[float]], backbone: str, digits: int) -> Iterator[Part]:
    """Judge whether the mean gain rises from each R to the next."""
    for few, many in pairwise(gaps):
        if not gaps[few] or not gaps[many]:
            yield missing(f"{_at(backbone, few)} or {many}")
            continue
        before, after = fmean(gaps[few]), fmean(gaps[many])
        label = f"gain {number(before, digits)} at R = {few}, {number(after, digits)} at R = {many}"
        yield yes(label, after > before)


def _averages_tied_at_one(numbers: Evidence) -> Iterator[Part]:
    for backbone, shots in _evaluated(numbers):
        gap = _average_gap(numbers, backbone, shots, 1)
        label = f"{_at(backbone, 1)}, {shots}-shot"
        yield within(label, gap, -NEUTRAL_POINTS, NEUTRAL_POINTS, 2)


def _averages_better_at_three(numbers: Evidence) -> Iterator[Part]:
    for backbone, shots in _evaluated(numbers):
        gap = _average_gap(numbers, backbone, shots, 3)
        yield within(f"{_at(backbone, 3)}, {shots}-shot", gap, 0.0, inf, 2)


def _evaluated(numbers: Evidence) -> list[tuple[str, int]]:
    return list(dict.fromkeys((backbone, shots) for backbone, shots, *_ in numbers.accuracies))


def _best_average(numbers: Evidence) -> Iterator[Part]:
    for shots in SHOTS:
        means = {
            (rule, loops): fmean(values.values())
            for (backbone, count, rule, loops, task), values in numbers.accuracies.items()
            if (backbone, count, task) == ("medium", shots, AVERAGE) and values
        }
        expected = {(rule, r) for rule in ("base", "deeploop") for r in published().training.loops}
        if not expected <= means.keys():
            yield missing(f"medium, {shots}-shot: {len(expected - means.keys())} of the models")
            continue
        rule, loops = max(means, key=lambda model: means[model])
        best = means[rule, loops]
        label = f"{shots}-shot: best is {rule_name(rule)} R = {loops} with {best:.2f}"
        yield yes(label, (rule, loops) == ("deeploop", 7))


def _seven_of_eight(numbers: Evidence) -> Iterator[Part]:
    for shots in SHOTS:
        gaps = {
            task: differences(
                numbers.accuracy("medium", shots, "deeploop", 7, task),
                numbers.accuracy("medium", shots, "base", 7, task),
            )
            for task in published().downstream.tasks
        }
        if not all(gaps.values()):
            yield missing(f"medium R = 7, {shots}-shot")
            continue
        won = sum(fmean(gap) > 0 for gap in gaps.values())
        yield yes(f"{shots}-shot: {won} of {len(gaps)} tasks", won == TASKS_WON)


def _boundary(numbers: Evidence) -> Iterator[Part]:
    paper = published().p_sweep
    for p in paper.p:
        outcome = numbers.exponents.get(p)
        expected = paper.fraction(p)
        if outcome is None or outcome.seeds == 0:
            yield missing(f"p = {p:g}")
            continue
        label = f"p = {p:g}: {outcome.count} train"
        if outcome.seeds is not None and outcome.seeds < 3 and outcome.word == expected:
            yield Part("undecided", label, f"p = {p:g}: {outcome.seeds} seeds are too few")
        else:
            yield yes(label, outcome.word == expected)


def _rising_above(numbers: Evidence) -> Iterator[Part]:
    means = {p: numbers.exponents[p].mean for p in sorted(numbers.exponents) if p >= 0.45}
    known = {p: mean for p, mean in means.items() if mean is not None}
    if len(known) < 2:
        yield missing("two exponents p ≥ 0.45 at which seeds train")
    for (p, before), (q, after) in pairwise(known.items()):
        yield yes(f"{before:.3f} at p = {p:g}, {after:.3f} at {q:g}", after > before)


def _votes_better(numbers: Evidence) -> Iterator[Part]:
    if numbers.votes and not any(any(values.values()) for values in numbers.votes.values()):
        yield missing("a run that solves a puzzle at any number of votes")
        return
    for votes in published().arc_votes.differences:
        gap = differences(numbers.vote("deeploop", votes), numbers.vote("vanilla", votes))
        yield within(f"K = {votes}", gap, 0.0, inf, 2)


def _seed_spread(numbers: Evidence) -> Iterator[Part]:
    paper = published().arc_votes
    for rule in paper.values:
        values = list(numbers.vote(rule, 2).values())
        if len(values) < paper.control_seeds:
            why = f"{rule_name(rule)}: {len(values)} of {paper.control_seeds} seeds"
            yield Part("undecided", "", f"{why} at K = 2")
            continue
        mean = fmean(values)
        spread = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
        label = f"{rule_name(rule)}: {spread:.2f} points over {len(values)} seeds"
        yield yes(label, spread < 2 * paper.seed_std_at_2_votes)


_STATEMENTS: Sequence[_Statement] = (
    _Statement(
        "neutral-at-one",
        "DeepLoop is neutral at R = 1.",
        "Section 5.1",
        f"the difference in validation loss at R = 1 is within ±{NEUTRAL_NATS} nats",
        _neutral_at_one,
    ),
    _Statement(
        "better-when-looped",
        "DeepLoop has the lower validation loss at every R ≥ 3.",
        "Section 5.1",
        "DeepLoop minus base is below zero at each R ≥ 3 of each backbone",
        _better_when_looped,
    ),
    _Statement(
        "monotone-in-loops",
        "Validation loss falls with R, for both rules.",
        "Section 5.1",
        "each R has a lower loss than the one before it",
        _monotone_in_loops,
    ),
    _Statement(
        "gap-widens",
        "At medium scale the gap in validation loss widens monotonically through R = 7.",
        "Section 5.1",
        "the mean gain (base minus DeepLoop) rises from each R to the next",
        _gap_widens,
    ),
    _Statement(
        "averages-tied",
        "Downstream averages are tied at R = 1.",
        "Section 5.2, appendix 9",
        f"the difference of averages at R = 1 is within ±{NEUTRAL_POINTS} points",
        _averages_tied_at_one,
    ),
    _Statement(
        "averages-better",
        "DeepLoop has the higher downstream average at R = 3.",
        "Section 5.2, appendix 9",
        "DeepLoop minus base is above zero at R = 3, at each number of shots",
        _averages_better_at_three,
    ),
    _Statement(
        "average-gap-widens",
        "On the 0-shot average the gap widens through R = 7.",
        "Section 5.2",
        "the mean gain at medium scale rises from R = 3 to 5 to 7",
        _average_gap_widens,
    ),
    _Statement(
        "best-average",
        "The best average of the medium models is DeepLoop's at R = 7, in both shot settings.",
        "Section 5.2",
        "the highest mean of the eight models is DeepLoop, R = 7",
        _best_average,
    ),
    _Statement(
        "seven-of-eight",
        "At R = 7 DeepLoop beats base on seven of the eight tasks, in both shot settings.",
        "Section 5.2",
        "the number of tasks with a higher mean accuracy is seven (medium)",
        _seven_of_eight,
    ),
    _Statement(
        "p-boundary",
        "No seed trains at p ≤ 0.40, some at 0.45, and all from 0.50 on.",
        "Appendix 10",
        "at each p the seeds that train are none, some or all, as stated; three seeds at least",
        _boundary,
    ),
    _Statement(
        "rising-above",
        "Among seeds that train, the mean loss rises with p above the boundary.",
        "Appendix 10",
        "the mean loss of the seeds that train rises from each p ≥ 0.45 to the next",
        _rising_above,
    ),
    _Statement(
        "votes-better",
        "DeepLoop HRM solves more puzzles at every voting budget.",
        "Section 5.3",
        "DeepLoop minus vanilla is above zero at each number of votes K",
        _votes_better,
    ),
    _Statement(
        "seed-spread",
        "The standard deviation over seeds at K = 2 is about 0.5 points.",
        "Section 5.3",
        "over four seeds or more, the standard deviation is below 1 point",
        _seed_spread,
    ),
)
