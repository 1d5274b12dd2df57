"""The paper's own arithmetic, checked: what its text says beside what its tables give."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import sqrt
from statistics import fmean

from deeploop.reporting.entries import number
from deeploop.reporting.names import backbone_name, rule_name
from deeploop.reporting.published import AVERAGE, Published
from deeploop.reporting.record import Record

_ROUNDING = 1e-9
"""Room for binary fractions beside half a unit of the last printed digit."""


class Slip(Record):
    """A number that does not follow from the numbers it is made of."""

    source: str
    printed: str
    computed: str
    about: str


def slips(paper: Published) -> tuple[Slip, ...]:
    """Return every slip that the checks find."""
    return (
        *_averages(paper),
        *_loss_differences(paper),
        *_vote_differences(paper),
        *_stated_differences(paper),
        *_widening(paper),
        *_step_seconds(paper),
        *_sigmas(paper),
    )


def _averages(paper: Published) -> Iterator[Slip]:
    for backbone, table in paper.downstream.tables.items():
        for shots, rules in table.shots.items():
            for rule, by_loops in rules.items():
                for loops, (*tasks, printed) in by_loops.items():
                    mean = fmean(tasks)
                    if abs(mean - printed) > 0.005 + _ROUNDING:
                        yield Slip(
                            source=table.source.split(",")[0],
                            printed=f"{printed:.2f}",
                            computed=f"{mean:.4f}",
                            about=f"average of {backbone_name(backbone)}, {shots}-shot, "
                            f"{rule_name(rule)} R = {loops}, from its eight entries",
                        )


def _loss_differences(paper: Published) -> Iterator[Slip]:
    for backbone, by_loops in paper.validation_loss.differences.items():
        rules = paper.validation_loss.values[backbone]
        for loops, printed in by_loops.items():
            difference = rules["deeploop"][loops] - rules["base"][loops]
            if abs(difference - printed) > 0.00005 + _ROUNDING:
                yield Slip(
                    source="Table 1",
                    printed=number(printed, 4, signed=True),
                    computed=number(difference, 4, signed=True),
                    about=f"Δ of {backbone_name(backbone)} at R = {loops}, from its two cells",
                )


def _vote_differences(paper: Published) -> Iterator[Slip]:
    values = paper.arc_votes.values
    for votes, printed in paper.arc_votes.differences.items():
        difference = values["deeploop"][votes] - values["vanilla"][votes]
        if abs(difference - printed) > 0.005 + _ROUNDING:
            yield Slip(
                source="Table 3",
                printed=number(printed, 2, signed=True),
                computed=number(difference, 2, signed=True),
                about=f"Δ at K = {votes}, from its two cells",
            )


def _stated_differences(paper: Published) -> Iterator[Slip]:
    for backbone, by_shots in paper.downstream.stated_differences.items():
        for shots, by_loops in by_shots.items():
            for loops, stated in by_loops.items():
                difference = _average_gap(paper, backbone, shots, loops)
                if abs(difference - stated) > 0.005 + _ROUNDING:
                    yield Slip(
                        source=f"text beside {paper.downstream.tables[backbone].source[:7]}",
                        printed=number(stated, 2, signed=True),
                        computed=number(difference, 2, signed=True),
                        about=f"gain of {backbone_name(backbone)}, {shots}-shot average, "
                        f"R = {loops}, from its two cells",
                    )


def _average_gap(paper: Published, backbone: str, shots: int, loops: int) -> float:
    """Return DeepLoop minus base of the printed averages, in points."""
    deeploop, base = (
        paper.accuracy(backbone, shots, rule, loops, AVERAGE) for rule in ("deeploop", "base")
    )
    assert deeploop is not None and base is not None
    return deeploop - base


def _widening(paper: Published) -> Iterator[Slip]:
    gaps = {r: _average_gap(paper, "medium", 0, r) for r in paper.training.loops if r > 1}
    if any(after < before for before, after in pairwise(gaps.values())):
        yield Slip(
            source="Section 5.2",
            printed="the gap widens through R = 7",
            computed=", then ".join(number(gap, 2, signed=True) for gap in gaps.values()),
            about="0-shot average of GPT-2 medium: it narrows from R = 5 to R = 7",
        )


def _step_seconds(paper: Published) -> Iterator[Slip]:
    sweep, training = paper.p_sweep, paper.training
    swept = 60 * sweep.budget_minutes / sweep.steps_in_budget
    hours = paper.compute.wall_clock_hours[sweep.backbone][sweep.loops]
    trained = 3600 * hours / training.steps
    if swept > 1.5 * trained:
        yield Slip(
            source="Appendices 10 and 11",
            printed=f"{swept:.1f} s a step in the p-sweep",
            computed=f"{trained:.2f} s a step in the cost table",
            about=f"{backbone_name(sweep.backbone)}, R = {sweep.loops}, the same model, batch and "
            f"{sweep.gpus} GPUs: {sweep.budget_minutes} minutes for {sweep.steps_in_budget:,} "
            f"steps, but {hours:g} hours for {training.steps:,}",
        )


def _sigmas(paper: Published) -> Iterator[Slip]:
    votes = paper.arc_votes
    sigmas = votes.differences[2] / (sqrt(2) * votes.seed_std_at_2_votes)
    if sigmas < votes.stated_sigmas - 0.5:
        yield Slip(
            source="Section 5.3",
            printed=f"{number(votes.differences[2], 2, signed=True)} is roughly a "
            f"{votes.stated_sigmas:g}σ effect",
            computed=f"{sigmas:.1f}σ",
            about="a difference of two single runs spreads √2 times as far as one run, whose "
            f"standard deviation is {votes.seed_std_at_2_votes:g}",
        )
