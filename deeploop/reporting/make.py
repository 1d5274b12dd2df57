"""From runs to exhibits: what each table stage, and a report made without stages, calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deeploop.reporting import (
    alignment_figure,
    alignment_table,
    downstream_figure,
    downstream_table,
    loss_figure,
    loss_table,
    p_sweep_figure,
    p_sweep_table,
    sweeps_table,
    votes_figure,
    votes_table,
)
from deeploop.reporting.exhibits import Exhibit
from deeploop.reporting.runs import PlacedRun


def losses(runs: Sequence[PlacedRun], beside: str, folder: Path) -> Exhibit:
    """Return Table 1; its figures are drawn into `folder`."""
    table = loss_table.loss_table(runs, beside)
    return loss_table.exhibit(table, loss_figure.draw(table, folder))


def downstream(name: str, runs: Sequence[PlacedRun], beside: str, folder: Path) -> Exhibit:
    """Return Table 2 or 4; its figures are drawn into `folder`."""
    table = downstream_table.downstream_table(runs, beside)
    return downstream_table.exhibit(name, table, downstream_figure.draw(name, table, folder))


def votes(runs: Sequence[PlacedRun], folder: Path, beside: Sequence[str] = ()) -> Exhibit:
    """Return Table 3; the voting ladder is drawn into `folder`. `beside` are not the paper's."""
    table = votes_table.votes_table(runs, beside)
    return votes_table.exhibit(table, votes_figure.draw(table, folder))


def p_sweep(runs: Sequence[PlacedRun], folder: Path) -> Exhibit:
    """Return the p-sweep; Figure 6 is drawn into `folder`."""
    sweep = p_sweep_table.sweep(runs)
    return p_sweep_table.exhibit(sweep, p_sweep_figure.draw(sweep, folder))


def sweeps(runs: Sequence[PlacedRun], groups: Mapping[str, Sequence[str]]) -> Exhibit:
    """Return the sweeps beyond the paper; `groups` names the runs of each by address."""
    return sweeps_table.exhibit(runs, groups)


def alignment(runs: Sequence[PlacedRun], folder: Path) -> Exhibit:
    """Return visit alignment; its figures are drawn into `folder`."""
    found = alignment_table.arranged(runs)
    return alignment_table.exhibit(found, alignment_figure.draw(found, folder))
