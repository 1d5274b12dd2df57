"""Tables 2 and 4: downstream accuracy by task, shots, scaling rule and number of loops R."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

from deeploop.reporting.cells import Cell, Place, Sample
from deeploop.reporting.downstream_pairs import Pairs, pair_groups, pairs
from deeploop.reporting.entries import cell_entry, number
from deeploop.reporting.exhibits import Drawing, Entry, Exhibit, Group, Row, Table
from deeploop.reporting.names import backbone_name, rule_name, task_name
from deeploop.reporting.published import AVERAGE, published
from deeploop.reporting.rule_rows import ordered
from deeploop.reporting.runs import EvaluationMetrics, PlacedRun, TaskAccuracy

DIGITS = 2
RULES = ("base", "deeploop")

CHANCE = {
    "arc_challenge": 25.0,
    "arc_easy": 25.0,
    "hellaswag": 25.0,
    "openbookqa": 25.0,
    "piqa": 50.0,
    "sciq": 25.0,
    "social_iqa": 100 / 3,
    "winogrande": 50.0,
}
"""Percent that guessing gets: one over the number of choices (ARC has a few items with 3 or 5)."""

QUESTIONS = {
    "hub": "The questions are the official ones, at pinned revisions.",
    "mirror": "The questions come from local files; their sha256 is in each run's `metrics.json`.",
    "samples": "The questions are not the official ones: they were written for this project, to "
    "show that everything runs, and rank nothing.",
}
"""What a note says of each source of questions."""

Model = tuple[str, str, int]
"""(backbone, rule, R)."""


@dataclass(frozen=True)
class DownstreamTable:
    """The numbers of Table 2 or 4, and the axes they span."""

    evaluations: tuple[tuple[PlacedRun, EvaluationMetrics], ...]
    models: tuple[Model, ...]
    shots: tuple[int, ...]
    columns: tuple[str, ...]
    """Tasks, the paper's first, then the average."""
    beside: Mapping[str, str]
    """backbone -> the published backbone whose numbers stand beside it: its own, if there is."""
    cells: Mapping[tuple[Model, int, str], Cell]
    """(model, shots, task) -> cell, in percent."""
    pairs: Pairs
    """DeepLoop against base on the same questions."""

    def chance(self, column: str) -> float | None:
        """Return what guessing gets at a task or on average, in percent; None if not known."""
        tasks = [c for c in self.columns if c != AVERAGE] if column == AVERAGE else [column]
        known = [CHANCE[task] for task in tasks if task in CHANCE]
        return fmean(known) if known and len(known) == len(tasks) else None


def downstream_table(runs: Sequence[PlacedRun], beside: str) -> DownstreamTable:
    """Arrange evaluations into the cells of the table.

    Args:
        runs: Evaluations with their cells.
        beside: Published backbone to show beside a backbone that the paper does not have.
    """
    paper = published()
    evaluations = tuple((run, run.evaluation()) for run in runs if run.done)
    pending = [_model(run) for run in runs if not run.done]
    models = _models(runs)
    own = paper.downstream.tables
    measured = {count for _, found in evaluations for count in found.shots}
    shots = tuple(sorted(measured or own[beside].shots))
    tasks = ordered(
        [task for _, found in evaluations for by_task in found.shots.values() for task in by_task]
        or paper.downstream.tasks,
        paper.downstream.tasks,
    )
    counterparts = {backbone: backbone if backbone in own else beside for backbone, *_ in models}
    columns = (*tasks, AVERAGE)
    cells = {
        (model, count, column): _cell(
            evaluations, pending.count(model), model, count, column, counterparts[model[0]]
        )
        for model in models
        for count in shots
        for column in columns
    }
    return DownstreamTable(evaluations, models, shots, columns, counterparts, cells, pairs(runs))


def _model(run: PlacedRun) -> Model:
    return run.cell["backbone"], run.cell["scaling"], run.cell["loops"]


def _models(runs: Sequence[PlacedRun]) -> tuple[Model, ...]:
    """Return the models in the paper's order: by backbone, rule, R."""
    models = dict.fromkeys(_model(run) for run in runs)
    backbones = list(dict.fromkeys(backbone for backbone, *_ in models))
    rules = ordered([rule for _, rule, _ in models], RULES)
    return tuple(sorted(models, key=lambda m: (backbones.index(m[0]), rules.index(m[1]), m[2])))


def _cell(
    evaluations: Sequence[tuple[PlacedRun, EvaluationMetrics]],
    pending: int,
    model: Model,
    shots: int,
    column: str,
    beside: str,
) -> Cell:
    backbone, rule, loops = model
    place: Place = {
        "backbone": backbone,
        "shots": shots,
        "scaling": rule,
        "loops": loops,
        "task": column,
    }
    samples = tuple(
        _sample(run, found.shots[shots], column)
        for run, found in evaluations
        if _model(run) == model and shots in found.shots
    )
    expected = published().accuracy(beside, shots, rule, loops, column)
    return Cell(where=place, samples=samples, published=expected, pending=pending)


def _sample(run: PlacedRun, tasks: Mapping[str, TaskAccuracy], column: str) -> Sample:
    if column == AVERAGE:
        value, stderr = _average(list(tasks.values()))
    else:
        found = tasks.get(column)
        value, stderr = (found.acc, found.stderr) if found else (None, None)
    return Sample(
        run=run.address,
        seed=run.cell["seed"],
        value=None if value is None else 100 * value,
        stderr=None if stderr is None else 100 * stderr,
    )


def _average(tasks: Sequence[TaskAccuracy]) -> tuple[float | None, float | None]:
    """Return the unweighted mean of the tasks' accuracies and its standard error, as shares."""
    values = [task.acc for task in tasks if task.acc is not None]
    errors = [task.stderr for task in tasks if task.stderr is not None]
    if len(values) < len(tasks) or not tasks:
        return None, None
    known = len(errors) == len(tasks)
    return fmean(values), sqrt(sum(e * e for e in errors)) / len(tasks) if known else None


def exhibit(name: str, table: DownstreamTable, drawings: tuple[Drawing, ...]) -> Exhibit:
    """Return the table with what chance is and what these runs show."""
    paper = published().downstream
    beside = next(iter(table.beside.values()))
    backbones = ", ".join(backbone_name(backbone) for backbone in table.beside)
    return Exhibit(
        name=name,
        title=f"Downstream accuracy: {backbones}",
        source=paper.tables[beside].source,
        about="Accuracy in percent on the eight multiple-choice tasks of the "
        "lm-evaluation-harness (acc, not acc_norm); higher is better. Avg is their unweighted "
        "mean. ± is the standard error over items for one run, the standard deviation over seeds "
        "for several. DeepLoop − base is taken a question at a time, ± half its "
        "95 % interval; p is McNemar's exact test of one task.",
        table=Table(
            corner="Method",
            columns=tuple(task_name(column) for column in table.columns),
            groups=(
                *(_group(b, s, table) for b in table.beside for s in table.shots),
                *pair_groups(table.pairs, table.columns, table.beside),
            ),
            detail_label="paired test",
        ),
        drawings=drawings,
        findings=_findings(table),
        notes=_notes(table),
        cells=tuple(table.cells.values()),
    )


def _group(backbone: str, shots: int, table: DownstreamTable) -> Group:
    rows = [
        Row(
            label=f"{rule_name(model[1])} R\u00a0=\u00a0{model[2]}",
            entries=tuple(cell_entry(table.cells[model, shots, c], DIGITS) for c in table.columns),
        )
        for model in table.models
        if model[0] == backbone
    ]
    chance = [table.chance(column) for column in table.columns]
    guesses = tuple(Entry(text=number(value, DIGITS) or "—", sort=value) for value in chance)
    rows.append(Row(label="guessing", entries=guesses, derived=True))
    label = (
        f"{shots}-shot" if len(table.beside) == 1 else f"{backbone_name(backbone)}, {shots}-shot"
    )
    return Group(label=label, rows=tuple(rows))


def _findings(table: DownstreamTable) -> tuple[str, ...]:
    """Say how the averages stand to guessing, in standard errors."""
    chance = table.chance(AVERAGE)
    averages = [
        (sample.value, sample.stderr)
        for (_, _, column), cell in table.cells.items()
        for sample in cell.samples
        if column == AVERAGE
    ]
    known = [(value, error) for value, error in averages if value is not None and error is not None]
    if chance is None or not known:
        return ()
    away = sum(value - chance > 2 * error for value, error in known)
    error = fmean(error for _, error in known)
    low, high = min(value for value, _ in known), max(value for value, _ in known)
    return (
        f"Averages run from {low:.2f} to {high:.2f}; guessing gets {chance:.2f}, and the standard "
        f"error of an average is about {error:.1f}. {away} of {len(known)} averages are more than "
        "two standard errors above guessing.",
    )


def _notes(table: DownstreamTable) -> tuple[str, ...]:
    items = sorted(
        {
            task.n
            for _, found in table.evaluations
            for t in found.shots.values()
            for task in t.values()
            if task.n  # a training that diverged is asked nothing
        }
    )
    notes = [
        QUESTIONS[source] for source in sorted({found.source for _, found in table.evaluations})
    ]
    if not items:
        return tuple(notes)
    count = f"{items[0]:,}" if items[0] == items[-1] else f"{items[0]:,} to {items[-1]:,}"
    notes += [
        f"{count} items a task. With the fewest, one item is {100 / items[0]:.2g} points. Guessing "
        "gets one over the number of choices."
    ]
    notes += [
        f"The published values beside {backbone_name(backbone)} are those of "
        f"{backbone_name(beside)}, on the full data sets: they show what the paper's models reach, "
        "not what these should."
        for backbone, beside in table.beside.items()
        if backbone != beside
    ]
    return tuple(notes)
