from __future__ import annotations

import csv
import io

from deeploop.reporting.cells import Cell, Sample
from deeploop.reporting.exhibits import Entry, Group, Row, Table
from deeploop.reporting.tables import to_csv, to_latex, to_markdown

NASTY = "a&b_c%d$e#f{g}|<script>\\"


def table(label: str = "base") -> Table:
    entries = (
        Entry(text="2.10", spread="± 0.14 (n=2)", detail="2.00, 2.20", published="2.25"),
        Entry(text="—", mark="absent"),
    )
    return Table(
        corner="Method",
        columns=("R = 1", "R = 3"),
        groups=(Group(label="tiny", rows=(Row(label=label, entries=entries),)),),
        notes=("† stuck",),
    )


def test_markdown_puts_the_published_value_on_a_line_of_its_own() -> None:
    assert to_markdown(table()).splitlines() == [
        "| Method | R = 1 | R = 3 |",
        "| :--- | ---: | ---: |",
        "| **tiny** |  |  |",
        "| base | 2.10 ± 0.14 (n=2) | — |",
        "| · each seed | 2.00, 2.20 |  |",
        "| · published | 2.25 |  |",
        "",
        "† stuck",
    ]


def test_markdown_text_cannot_break_out_of_its_cell() -> None:
    (line,) = [li for li in to_markdown(table(NASTY)).splitlines() if "script" in li]
    assert r"\<script\>" in line
    assert line.replace(r"\|", "").count("|") == 4


def test_latex_escapes_what_has_a_meaning_there() -> None:
    text = to_latex(table(NASTY))
    assert r"a\&b\_c\%d\$e\#f\{g\}|\textless{}script\textgreater{}\textbackslash{}" in text
    assert r"2.10 $\pm$ 0.14 (n=2)" in text
    assert text.startswith(r"\begin{tabular}{lrr}" + "\n" + r"\toprule")


def test_csv_has_a_line_a_cell_even_without_a_run() -> None:
    samples = (
        Sample(run="train_lm/a", seed=0, value=2.0),
        Sample(run="train_lm/b", seed=1, value=None, outcome="diverged"),
    )
    cells = [
        Cell(where={"scaling": "base", "loops": 1}, samples=samples, published=2.5),
        Cell(where={"scaling": "base", "loops": 3}),
    ]
    first, second = csv.DictReader(io.StringIO(to_csv(cells)))
    assert (first["mean"], first["difference"], first["runs"]) == ("2.0", "-0.5", "2")
    assert (first["trained"], first["values"], first["seeds"]) == ("1", "2.0 nan", "0 1")
    assert (second["n"], second["mean"], second["published"]) == ("0", "", "")
