"""Visit alignment in numbers: by rule and R at the start and at the end of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

from deeploop.reporting.cells import TRAINED, Cell, Place, Sample, paired
from deeploop.reporting.entries import cell_entry, legend, number
from deeploop.reporting.exhibits import Drawing, Exhibit, Group, Row, Table
from deeploop.reporting.names import backbone_name, rule_name
from deeploop.reporting.record import Record
from deeploop.reporting.rule_rows import ordered
from deeploop.reporting.runs import Output, PlacedRun, read_output

NAME = "alignment"
DIGITS = 2
RULES = ("base", "vanilla", "deeploop")
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 percent points of Student's t at 1 to 9 degrees of freedom."""


class Interval(Output):
    """An estimate with its bootstrap interval over batches; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None


class ModuleAlignment(Output):
    """One module at one step."""

    rounds: int
    kappa: Interval
    pair_cosine: Interval
    kappa_defined: Interval | None = None
    gradient_norms: tuple[float | None, ...]
    """Of each visit."""
    common: tuple[float | None, ...]
    """Share of the stream's energy that all tokens have alike, after each visit."""


class Point(Output):
    """One step."""

    step: int
    amplification: Interval | None = None
    modules: dict[str, ModuleAlignment]


class Measurement(Output):
    """`alignment.json`."""

    outcome: str
    points: tuple[Point, ...]


class Where(Record):
    """What seeds have in common."""

    label: str
    """Backbone and R, or HRM."""
    rule: str
    module: str


@dataclass(frozen=True)
class Series:
    """The runs of one rule at one place, and their module with more than one visit."""

    where: Where
    rounds: int
    runs: tuple[tuple[PlacedRun, Measurement], ...]

    def cell(self, value: Callable[[Point], float | None], index: int) -> Cell:
        """Return every seed's value at the first (0) or last (-1) point."""
        samples = tuple(
            Sample(
                run=run.address,
                seed=run.cell["seed"],
                value=value(found.points[index]),
                outcome=found.outcome if index else TRAINED,
            )
            for run, found in self.runs
        )
        where: Place = {"place": self.where.label, "rule": self.where.rule}
        return Cell(where=where | {"point": "start" if index == 0 else "end"}, samples=samples)

    def kappa(self, point: Point) -> float | None:
        """Return kappa of the gradients."""
        return point.modules[self.where.module].kappa.value

    def columns(self) -> tuple[Cell, ...]:
        """Return the table's numbers, in the order of `COLUMNS`."""
        name = self.where.module

        def defined(point: Point) -> float | None:
            found = point.modules[name].kappa_defined
            return None if found is None else found.value

        def common(point: Point) -> float | None:
            return point.modules[name].common[-1]

        def excess(point: Point) -> float | None:
            return None if point.amplification is None else point.amplification.value

        def cosine(point: Point) -> float | None:
            return point.modules[name].pair_cosine.value

        return (
            self.cell(self.kappa, 0),
            self.cell(self.kappa, -1),
            self.cell(cosine, -1),
            self.cell(defined, -1),
            self.cell(excess, -1),
            self.cell(common, -1),
        )


COLUMNS = (
    "κ at the start",
    "κ at the end",
    "pair cosine",
    "κ_R (Eq. 10)",
    "tied / untied change",
    "common share",
)


def arranged(runs: Sequence[PlacedRun]) -> tuple[Series, ...]:
    """Arrange the runs that are measured into series, the paper's rules first at each place."""
    by_where: dict[tuple[str, str, str], list[tuple[PlacedRun, Measurement]]] = {}
    for run in runs:
        if not run.done:
            continue
        found = measurement(run)
        for name, module in found.points[0].modules.items():
            if module.rounds > 1:
                key = (_label(run), _rule(run), name)
                by_where.setdefault(key, []).append((run, found))
    rules = ordered([rule for _, rule, _ in by_where], RULES)
    places = list(dict.fromkeys(label for label, _, _ in by_where))
    keys = sorted(by_where, key=lambda key: (places.index(key[0]), rules.index(key[1])))
    return tuple(
        Series(
            Where(label=label, rule=rule, module=name),
            by_where[label, rule, name][0][1].points[0].modules[name].rounds,
            tuple(by_where[label, rule, name]),
        )
        for label, rule, name in keys
    )


def measurement(run: PlacedRun) -> Measurement:
    """Read what a run measured."""
    return read_output(run.file("alignment.json"), Measurement)


def _rule(run: PlacedRun) -> str:
    return str(run.cell.get("scaling", run.cell.get("rule")))


def _label(run: PlacedRun) -> str:
    if "loops" not in run.cell:
        return "HRM, module L"
    return f"{backbone_name(run.cell['backbone'])}, R = {run.cell['loops']}"


def exhibit(found: Sequence[Series], drawings: tuple[Drawing, ...]) -> Exhibit:
    """Return alignment with what these runs show and how to read it."""
    places = dict.fromkeys(series.where.label for series in found)
    groups = tuple(
        Group(label=place, rows=tuple(_row(s) for s in found if s.where.label == place))
        for place in places
    )
    cells = tuple(cell for series in found for cell in series.columns())
    return Exhibit(
        name=NAME,
        title="Visit alignment",
        source="ours: the paper's stated future work (section 7)",
        about="How far the visits of a shared block pull in one direction: κ = ‖Σ g_r‖² / Σ ‖g_r‖² "
        "over the visits' gradients, between 0 and R; R for identical visits, 1 for orthogonal "
        "ones. κ_R of Eq. 10 takes sensitivities in as well. The change of the output by one tied "
        "update stands over that by untied updates, first order. Common share is how much of the "
        "stream's energy all tokens have alike after the last visit: 1 is collapse. ± is the "
        "standard deviation over seeds.",
        table=Table(
            corner="Rule",
            columns=COLUMNS,
            groups=groups,
            notes=legend(sample for cell in cells for sample in cell.samples),
        ),
        drawings=drawings,
        findings=tuple(line for place in places if (line := _finding(found, place))),
        notes=(
            "κ near 1 in a collapsed run says that one visit holds all the gradient, not that "
            "visits differ: see the common share.",
            "κ = R at the start of DeepLoop is no finding: with small β the stream stands still, "
            "so all visits see one input.",
        ),
        cells=cells,
    )


def _row(series: Series) -> Row:
    return Row(
        label=rule_name(series.where.rule),
        entries=tuple(cell_entry(cell, DIGITS) for cell in series.columns()),
    )


def _finding(found: Sequence[Series], place: str) -> str:
    """Say how kappa differs at the end between DeepLoop and the base, over pairs that train."""
    here = {series.where.rule: series for series in found if series.where.label == place}
    control = here.get("base") or here.get("vanilla")
    if control is None or "deeploop" not in here:
        return ""
    ends = [series.cell(series.kappa, -1) for series in (here["deeploop"], control)]
    pairs = paired({"place": place}, ends[0], ends[1], None).trained
    if pairs.mean is None:
        return f"{place}: no seed trains under both rules."
    text = f"{place}: DeepLoop's κ at the end is {number(pairs.mean, DIGITS, signed=True)} against "
    text += f"{rule_name(control.where.rule)}"
    if pairs.std is None or pairs.n - 2 >= len(STUDENT):
        return f"{text} (pairs of seeds that both train: {pairs.n})."
    half = STUDENT[pairs.n - 2] * pairs.std / sqrt(pairs.n)
    low, high = (number(pairs.mean + sign * half, DIGITS, signed=True) for sign in (-1, 1))
    return (
        f"{text} (95 percent interval {low} to {high}, {pairs.n} pairs of seeds that both train)."
    )
