"""The numbers behind a table: what each run gave, and what its cell says of them together."""

from __future__ import annotations

from math import sqrt
from statistics import fmean, stdev

from deeploop.reporting.record import Record

TRAINED = "trained"
"""Outcome of a run that learned more than token frequencies; others are `floor`, `diverged`."""

Place = dict[str, str | int | float]
"""What places a cell, e.g. backbone, scaling and loops."""

VALIDATION = "validation"
"""How a reported loss came about, unless the train tail stood in for it."""


class Sample(Record):
    """One run's number."""

    run: str
    """`stage/name`, the run's address in the plan."""
    seed: int
    value: float | None
    """None where the run gave no finite number."""
    outcome: str = TRAINED
    reported: str = VALIDATION
    stderr: float | None = None
    """Standard error over the items or puzzles that the number is a share of."""

    @property
    def trained(self) -> bool:
        """Whether the run trained."""
        return self.outcome == TRAINED


class Spread(Record):
    """Count, mean and spread of finite values."""

    n: int
    mean: float | None
    std: float | None
    """Sample standard deviation (n - 1); None below two values."""
    low: float | None
    high: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The mean's 95 % confidence interval (Student's t); None below two values."""
        if self.mean is None or self.std is None:
            return None
        from scipy.special import stdtrit  # here, because planning a suite imports this module

        half = float(stdtrit(self.n - 1, 0.975)) * self.std / sqrt(self.n)
        return self.mean - half, self.mean + half

    @staticmethod
    def of(values: list[float]) -> Spread:
        """Summarise `values`, which may be empty."""
        if not values:
            return Spread(n=0, mean=None, std=None, low=None, high=None)
        spread = stdev(values) if len(values) > 1 else None
        return Spread(
            n=len(values), mean=fmean(values), std=spread, low=min(values), high=max(values)
        )


class Cell(Record):
    """One cell of a table: its runs' numbers beside the published one."""

    where: Place
    """What places the cell, e.g. backbone, scaling and loops."""
    samples: tuple[Sample, ...] = ()
    """In the plan's order; empty where the plan has no run."""
    published: float | None = None
    pending: int = 0
    """Planned runs without a result yet."""

    @property
    def spread(self) -> Spread:
        """All finite values together, whatever became of their runs."""
        return Spread.of([s.value for s in self.samples if s.value is not None])

    @property
    def trained(self) -> Spread:
        """The values of the runs that trained."""
        return Spread.of([s.value for s in self.samples if s.trained and s.value is not None])

    @property
    def difference(self) -> float | None:
        """Mean minus published value."""
        mean = self.spread.mean
        return None if mean is None or self.published is None else mean - self.published


def paired(where: Place, treated: Cell, control: Cell, published: float | None) -> Cell:
    """Return the cell of differences `treated - control`, seed by seed where both have the seed.

    `published` is the difference as the paper prints it, which rounding may set apart from that
    of its cells.
    """
    partner = {s.seed: s for s in control.samples}
    samples = tuple(
        _difference(sample, partner[sample.seed])
        for sample in treated.samples
        if sample.seed in partner
    )
    pending = max(treated.pending, control.pending)
    return Cell(where=where, samples=samples, published=published, pending=pending)


def _difference(treated: Sample, control: Sample) -> Sample:
    value = None
    if treated.value is not None and control.value is not None:
        value = treated.value - control.value
    worse = treated if not treated.trained else control
    return Sample(
        run=f"{treated.run} - {control.run}",
        seed=treated.seed,
        value=value,
        outcome=worse.outcome,
        reported=treated.reported if treated.reported != VALIDATION else control.reported,
    )
