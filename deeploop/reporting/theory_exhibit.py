"""The numerical check of the theory, as an exhibit: growth with R beside what is predicted."""

from __future__ import annotations

from pathlib import Path

from deeploop.analysis.theory_check import Check, Growth
from deeploop.reporting import figures, palette
from deeploop.reporting.cells import Cell, Sample
from deeploop.reporting.entries import number
from deeploop.reporting.exhibits import Drawing, Entry, Exhibit, Group, Row, Table

NAME = "check_theory"
COLUMNS = (
    "power of R, predicted",
    "power of R, found",
    "κ_R, least R to largest",
    "change / bound",
)
COLORS = {0.25: palette.BASE, 0.5: palette.DEEPLOOP}


def draw(found: Check, folder: Path) -> tuple[Drawing, ...]:
    """Draw growth with R and the lemma's remainder into `folder`."""
    with figures.style():
        return _growth(found, folder), _lemma(found, folder)


def exhibit(found: Check, drawings: tuple[Drawing, ...]) -> Exhibit:
    """Return the check with what it shows."""
    aligned = [growth for growth in found.growths if not growth.decorrelated]
    tightest = max(growth.tightness for growth in found.growths)
    powers = ", ".join(f"{number(g.power, 2)} for p = {g.p:g}" for g in aligned)
    return Exhibit(
        name=NAME,
        title="The theory, checked numerically",
        source="Lemma 1, the propositions of sections 3.3 and 3.4, Eqs. 9 to 14",
        about=f"First-order change of the output by one tied update on random looped stacks of "
        f"K = {found.blocks} blocks ({found.seeds} of each kind, one gradient step of unit rate). "
        "Aligned stacks are as they come; decorrelated ones rotate the stream after each round. "
        "The bound is Eq. 11 with κ_R of Eq. 10 and its constants measured on the same stack.",
        table=Table(
            corner="Stacks",
            columns=COLUMNS,
            groups=(Group(label="", rows=tuple(_row(growth) for growth in found.growths)),),
        ),
        drawings=drawings,
        findings=(
            f"With aligned visits the change grows with R to the power {powers}.",
            f"No change exceeds its bound: at most {100 * tightest:.0f} percent of it.",
            "What Lemma 1 leaves out falls with α to the power "
            f"{number(found.remainder_power, 2)}.",
        ),
        cells=tuple(_cell(growth) for growth in found.growths),
    )


def _label(growth: Growth) -> str:
    return f"{'decorrelated' if growth.decorrelated else 'aligned'}, p = {growth.p:g}"


def _row(growth: Growth) -> Row:
    kappas = f"{number(growth.kappa[0], 2)} to {number(growth.kappa[-1], 2)}"
    entries = (
        Entry(text=number(growth.predicted, 2), sort=growth.predicted),
        Entry(text=number(growth.power, 2), sort=growth.power),
        Entry(text=kappas, sort=growth.kappa[-1]),
        Entry(text=number(growth.tightness, 2), sort=growth.tightness),
    )
    return Row(label=_label(growth), entries=entries)


def _cell(growth: Growth) -> Cell:
    where = {"p": growth.p, "visits": "decorrelated" if growth.decorrelated else "aligned"}
    return Cell(where=where, samples=(Sample(run="check_theory/all", seed=0, value=growth.power),))


def _growth(found: Check, folder: Path) -> Drawing:
    (axes,) = figures.panels()
    for growth in found.growths:
        style = "--" if growth.decorrelated else "-"
        color = COLORS[growth.p]
        axes.plot(growth.loops, growth.change, style, color=color, marker="o", label=_label(growth))
        axes.plot(growth.loops, growth.bound, ":", color=color, linewidth=1.0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(found.growths[0].loops, [str(loops) for loops in found.growths[0].loops])
    axes.set_title("Change by one tied update; dotted: bound")
    axes.set_xlabel("loops R")
    axes.set_ylabel("change of the output")
    axes.legend(fontsize=7.5)
    figures.save(axes, folder, f"{NAME}-growth")
    words = "; ".join(f"{_label(g)}: R to the power {number(g.power, 2)}" for g in found.growths)
    title = "Growth with R at fixed K"
    return Drawing(name=f"{NAME}-growth", title=title, alt=f"Change against R. {words}.")


def _lemma(found: Check, folder: Path) -> Drawing:
    (axes,) = figures.panels()
    axes.plot(found.alphas, found.remainders, color=palette.DEEPLOOP, marker="o", label="remainder")
    last = found.alphas[-1], found.remainders[-1]
    line = [last[1] * (last[0] / alpha) ** 2 for alpha in found.alphas]
    axes.plot(found.alphas, line, ":", color=palette.MUTED, label="1/α²")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title("What Lemma 1 leaves out")
    axes.set_xlabel("α")
    axes.set_ylabel("remainder (root mean square)")
    axes.legend()
    figures.save(axes, folder, f"{NAME}-lemma")
    alt = f"Remainder against α, falling with the power {number(found.remainder_power, 2)}."
    return Drawing(name=f"{NAME}-lemma", title="Lemma 1", alt=alt)
