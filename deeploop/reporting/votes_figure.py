"""The voting ladder: share of puzzles solved against the number of votes, one marker a seed."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from deeploop.reporting import figures, palette
from deeploop.reporting.exhibits import Drawing
from deeploop.reporting.names import rule_name
from deeploop.reporting.published import published
from deeploop.reporting.votes_table import NAME, VotesTable

TITLE = "Voting ladder"


def draw(table: VotesTable, folder: Path) -> tuple[Drawing, ...]:
    """Draw the ladder into `folder`."""
    name = f"{NAME}-ladder"
    with figures.style():
        (axes,) = figures.panels()
        for rule in table.rules:
            _rule(axes, rule, table)
        axes.set_xscale("log")
        axes.set_xticks(list(table.votes), [f"{votes:,}" for votes in table.votes])
        axes.minorticks_off()
        axes.set_title(TITLE)
        axes.set_xlabel("votes K")
        axes.set_ylabel("puzzles solved (percent)")
        figures.legend(axes)
        figures.save(axes, folder, name)
    return (Drawing(name=name, title=TITLE, alt=_in_words(table)),)


def _rule(axes: Axes, rule: str, table: VotesTable) -> None:
    color, marker = palette.rule_style(rule, table.rules)
    cells = [(float(votes), table.cells[rule, votes]) for votes in table.votes]
    means = [(votes, mean) for votes, cell in cells if (mean := cell.spread.mean) is not None]
    axes.plot([v for v, _ in means], [m for _, m in means], color=color)
    points = [(v, s.value) for v, cell in cells for s in cell.samples if s.value is not None]
    if points:
        x, y = [v for v, _ in points], [value for _, value in points]
        figures.dots(axes, x, y, color, marker, rule_name(rule))
    values = published().arc_votes.values.get(rule)
    if values:
        label = f"{rule_name(rule)}, published"
        x, y = [float(votes) for votes in values], list(values.values())
        figures.published_line(axes, x, y, color, marker, label)


def _in_words(table: VotesTable) -> str:
    parts = []
    for rule in table.rules:
        cells = [(votes, table.cells[rule, votes].spread.mean) for votes in table.votes]
        means = ", ".join(f"{mean:.2f} at K = {v}" for v, mean in cells if mean is not None)
        parts.append(f"{rule_name(rule)}: {means or 'no run'}")
    return f"Percent of puzzles solved against votes K. {'; '.join(parts)}."
