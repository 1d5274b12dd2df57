"""The report of the published numbers alone: the paper's tables cell by cell, and its curves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from deeploop.reporting import make, rule_table
from deeploop.reporting.artifacts import write_exhibit
from deeploop.reporting.drafts import EXHIBITS
from deeploop.reporting.entries import ABSENT
from deeploop.reporting.exhibits import Entry, Exhibit, Group, Row, Table
from deeploop.reporting.pages import Page, Source, build
from deeploop.reporting.published import Published, published
from deeploop.reporting.runs import PlacedRun


def build_published(folder: Path) -> None:
    """Write the pages, tables and figures of the paper's own numbers into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    paper = published()
    with TemporaryDirectory() as work:
        root = Path(work)
        sources = [Source(rule_table.NAME, rule_table.build(root / rule_table.NAME))]
        for exhibit, where in _exhibits(paper, root):
            write_exhibit(_as_published(exhibit), where)
            sources.append(Source(exhibit.name, where))
        page = Page(
            title=paper.title,
            suite="published",
            lead="The published numbers alone, read from reports/published.yaml.",
            records=False,
            judged=False,
        )
        build(sources, page, folder)


def _exhibits(paper: Published, root: Path) -> Iterator[tuple[Exhibit, Path]]:
    """Yield each table over places without runs, and the folder of its figures."""
    for name in EXHIBITS:
        (root / name).mkdir()
    yield make.losses(_loss_places(paper), "", root / "table1"), root / "table1"
    yield make.p_sweep(_p_places(paper), root / "p_sweep"), root / "p_sweep"
    for name, backbone in (("table2", "medium"), ("table4", "small")):
        places = _downstream_places(paper, backbone)
        yield make.downstream(name, places, backbone, root / name), root / name
    yield make.votes(_vote_places(paper), root / "table3"), root / "table3"


def _place(**cell: str | int | float) -> PlacedRun:
    return PlacedRun("published", {"seed": 0, **cell}, None)


def _loss_places(paper: Published) -> list[PlacedRun]:
    return [
        _place(backbone=backbone, scaling=rule, loops=loops)
        for backbone, rules in paper.validation_loss.values.items()
        for rule, by_loops in rules.items()
        for loops in by_loops
    ]


def _downstream_places(paper: Published, backbone: str) -> list[PlacedRun]:
    first = next(iter(paper.downstream.tables[backbone].shots.values()))
    return [
        _place(backbone=backbone, scaling=rule, loops=loops)
        for rule, by_loops in first.items()
        for loops in by_loops
    ]


def _vote_places(paper: Published) -> list[PlacedRun]:
    return [_place(rule=rule) for rule in paper.arc_votes.values]


def _p_places(paper: Published) -> list[PlacedRun]:
    sweep = paper.p_sweep
    return [_place(backbone=sweep.backbone, loops=sweep.loops, p=p) for p in sweep.p]


def _as_published(exhibit: Exhibit) -> Exhibit:
    """Show the published values in place of the ones that no run gave."""
    assert exhibit.table is not None
    groups = tuple(_published_group(group) for group in exhibit.table.groups)
    table = Table(**{**dict(exhibit.table), "groups": groups, "notes": ()})
    return Exhibit(**{**dict(exhibit), "table": table, "notes": ()})


def _published_group(group: Group) -> Group:
    """Keep the lines, and in them the values, that the paper has."""
    rows = tuple(
        Row(
            label=row.label,
            entries=tuple(_published_entry(entry) for entry in row.entries),
            derived=row.derived,
        )
        for row in group.rows
        if any(entry.published for entry in row.entries)
    )
    return Group(label=group.label, rows=rows)


def _published_entry(entry: Entry) -> Entry:
    text = entry.published or ABSENT
    try:
        sort = float(text.replace("−", "-"))
    except ValueError:
        sort = None
    return Entry(text=text, sort=sort, mark="" if entry.published else "absent")
