"""Verdicts on statements about numbers: holds, fails, or not decidable yet, and why.

A statement is judged part by part. A part with one number a place is decided by the number, as the
paper decides it; with several seeds, by the 95 % interval of their mean, and where the interval
does not decide, more seeds are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from deeploop.reporting.cells import Spread
from deeploop.reporting.entries import number
from deeploop.reporting.evidence import Values
from deeploop.reporting.record import Record

Verdict = Literal["holds", "fails", "undecided"]


@dataclass(frozen=True)
class Part:
    """One comparison that a statement consists of."""

    verdict: Verdict
    numbers: str
    why: str = ""
    """Why it is not decided."""


class Judgement(Record):
    """A statement's verdict on one set of numbers."""

    verdict: Verdict
    numbers: str
    why: str = ""
    """What fails, or what is missing."""


def judge(parts: Sequence[Part]) -> Judgement:
    """Join parts: one that fails decides; otherwise one undecided leaves the whole so."""
    failing = [part for part in parts if part.verdict == "fails"]
    undecided = [part for part in parts if part.verdict == "undecided"]
    verdict: Verdict = "fails" if failing else "undecided" if undecided or not parts else "holds"
    if failing:
        why = f"not so at {'; '.join(part.numbers for part in failing)}"
    else:
        why = "; ".join(dict.fromkeys(part.why for part in undecided))
    numbers = "; ".join(part.numbers for part in parts if part.numbers)
    return Judgement(verdict=verdict, numbers=numbers, why=why if parts else "no run of it")


def missing(what: str) -> Part:
    """Return the part of a comparison that lacks a number."""
    return Part("undecided", "", f"no result for {what}")


def differences(treated: Values, control: Values) -> list[float]:
    """Return treated minus control of each seed that both have."""
    return [treated[seed] - control[seed] for seed in sorted(treated) if seed in control]


def within(
    label: str, values: Sequence[float], low: float, high: float, digits: int, signed: bool = True
) -> Part:
    """Judge whether the mean of `values` lies strictly between two bounds."""
    spread = Spread.of(list(values))
    if spread.mean is None:
        return missing(label)
    mean = number(spread.mean, digits, signed)
    left, right = spread.interval or (spread.mean, spread.mean)
    if spread.interval is None:
        text = f"{label}: {mean}"
    else:
        ends = f"{number(left, digits, signed)} to {number(right, digits, signed)}"
        text = f"{label}: {mean} (95 %: {ends}, n={spread.n})"
    if low < left and right < high:
        return Part("holds", text)
    if right <= low or left >= high:
        return Part("fails", text)
    return Part("undecided", text, f"{label}: the interval of {spread.n} seeds does not decide")


def yes(label: str, true: bool) -> Part:
    """Return a part decided by a plain fact."""
    return Part("holds" if true else "fails", label)
