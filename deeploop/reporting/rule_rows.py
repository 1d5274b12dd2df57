"""Lines of a table that sets scaling rules against each other: one a rule, differences below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deeploop.reporting.cells import Cell
from deeploop.reporting.entries import cell_entry
from deeploop.reporting.exhibits import Entry, Row
from deeploop.reporting.names import rule_name


@dataclass(frozen=True)
class Style:
    """How the numbers of a table are written."""

    digits: int
    best: Callable[[list[float]], float]
    """`min` for losses, `max` for accuracies."""


def ordered(rules: Sequence[str], first: Sequence[str]) -> tuple[str, ...]:
    """Return `rules` without repetition, the paper's before others."""
    planned = dict.fromkeys(rules)
    return tuple(dict.fromkeys([*(rule for rule in first if rule in planned), *planned]))


def rule_rows(
    rules: Sequence[str],
    columns: Sequence[int],
    cells: Mapping[tuple[str, int], Cell],
    style: Style,
) -> list[Row]:
    """Return one line a rule; the best mean of a column is marked."""
    best = {column: _best([cells[rule, column] for rule in rules], style) for column in columns}

    def entry(rule: str, column: int) -> Entry:
        cell = cells[rule, column]
        return cell_entry(cell, style.digits, best=cell is best[column])

    return [
        Row(label=rule_name(rule), entries=tuple(entry(rule, column) for column in columns))
        for rule in rules
    ]


def _best(cells: Sequence[Cell], style: Style) -> Cell | None:
    """Return the cell with the best mean, if there are two to choose from and one stands out.

    A cell of which no run trained is not the best of anything.
    """
    means = [mean for cell in cells if (mean := cell.spread.mean) is not None]
    top = [cell for cell in cells if means and cell.spread.mean == style.best(means)]
    alone = len(means) > 1 and len(top) == 1
    return top[0] if alone and any(sample.trained for sample in top[0].samples) else None


def gap_row(label: str, gaps: Sequence[Cell], style: Style) -> Row:
    """Return the line of differences below the rules."""
    entries = tuple(cell_entry(gap, style.digits, signed=True) for gap in gaps)
    return Row(label=label, entries=entries, derived=True)
