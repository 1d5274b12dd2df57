"""Tables as Markdown, booktabs LaTeX and CSV.

Each line of a table is followed by lines of its own for what stands beside the numbers: every
seed, the published values, the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from deeploop.reporting import escaping
from deeploop.reporting.cells import Cell
from deeploop.reporting.exhibits import Entry, Row, Table

Line = tuple[str, list[str]]


def _lines(table: Table, row: Row) -> Iterator[Line]:
    """Yield a row's own line, then those that stand beside it and are not empty."""
    yield row.label, [" ".join(filter(None, (e.text, e.spread))) for e in row.entries]
    beside: tuple[tuple[str, Callable[[Entry], str]], ...] = (
        (table.detail_label, lambda entry: entry.detail),
        ("published", lambda entry: entry.published),
        ("difference", lambda entry: entry.difference),
    )
    for label, of in beside:
        values = [of(entry) for entry in row.entries]
        if any(values):
            yield label, values


def to_markdown(table: Table) -> str:
    """Return the table for a code host; groups become bold lines."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    escape = escaping.markdown
    out = [line(escape(c) for c in (table.corner, *table.columns))]
    out.append(line([":---"] + ["---:"] * len(table.columns)))
    for group in table.groups:
        if group.label:
            out.append(line([f"**{escape(group.label)}**"] + [""] * len(table.columns)))
        for row in group.rows:
            (label, values), *beside = _lines(table, row)
            out.append(line([escape(label), *map(escape, values)]))
            out.extend(line([f"· {escape(k)}", *map(escape, v)]) for k, v in beside)
    notes = [escape(note) for note in table.notes]
    return "\n\n".join(["\n".join(out), *notes]) + "\n"


def to_latex(table: Table) -> str:
    r"""Return a `tabular` in booktabs style; needs `\usepackage{booktabs}`."""
    escape = escaping.latex
    width = len(table.columns) + 1
    out = [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule"]
    out.append(_latex_line(escape(c) for c in (table.corner, *table.columns)))
    for group in table.groups:
        out.append(r"\midrule")
        if group.label:
            out.append(rf"\multicolumn{{{width}}}{{l}}{{\textit{{{escape(group.label)}}}}} \\")
        for row in group.rows:
            (label, values), *beside = _lines(table, row)
            out.append(_latex_line([escape(label), *map(escape, values)]))
            out.extend(
                _latex_line(rf"{{\footnotesize {escape(cell)}}}" if cell else "" for cell in cells)
                for cells in ([rf"  {k}", *v] for k, v in beside)
            )
    out.append(r"\bottomrule")
    out += [
        rf"\multicolumn{{{width}}}{{l}}{{\footnotesize {escape(note)}}} \\" for note in table.notes
    ]
    return "\n".join([*out, r"\end{tabular}"]) + "\n"


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def to_csv(cells: Sequence[Cell]) -> str:
    """Return one line a cell: its place, n, mean, spread, published value and difference."""
    import polars as pl

    keys = list(dict.fromkeys(key for cell in cells for key in cell.where))
    frame = pl.DataFrame([_record(cell, keys) for cell in cells], infer_schema_length=None)
    return frame.write_csv()


def _record(cell: Cell, keys: Sequence[str]) -> dict[str, str | int | float | None]:
    spread, trained = cell.spread, cell.trained
    return {
        **{key: cell.where.get(key) for key in keys},
        "runs": len(cell.samples),
        "trained": sum(sample.trained for sample in cell.samples),
        "n": spread.n,
        "mean": spread.mean,
        "std": spread.std,
        "min": spread.low,
        "max": spread.high,
        "trained_mean": trained.mean,
        "published": cell.published,
        "difference": cell.difference,
        "seeds": " ".join(str(sample.seed) for sample in cell.samples),
        "values": " ".join("nan" if s.value is None else repr(s.value) for s in cell.samples),
    }
