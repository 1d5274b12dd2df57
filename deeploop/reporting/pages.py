"""The pages that assemble exhibits: `index.html` and `report.md`, pure functions of their files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from deeploop.reporting import curves, escaping, svg
from deeploop.reporting.artifacts import json_text
from deeploop.reporting.claims import Claim, claims
from deeploop.reporting.drafts import PAPER_EXHIBITS
from deeploop.reporting.evidence import evidence_of, published_evidence
from deeploop.reporting.exhibits import Drawing, Exhibit, read_exhibit
from deeploop.reporting.published import published
from deeploop.reporting.slips import Slip, slips
from deeploop.reporting.statement import Statement
from deeploop.reporting.tables import to_markdown
from deeploop.reporting.views import write_views

TEMPLATES = Path(__file__).resolve().parents[2] / "reports" / "templates"
RECORDS_PAGE = "runs.html"
"""Times, costs and lineage of the runs: written by `deeploop report`, never an output."""

_FOLDERS = {
    ".svg": "figures",
    ".pdf": "figures",
    ".png": "figures",
    ".csv": "tables",
    ".md": "tables",
    ".tex": "tables",
    ".json": "tables",
}


@dataclass(frozen=True)
class Source:
    """A finished table stage."""

    name: str
    folder: Path
    """Holds `<name>.json` and the files that go with it."""


@dataclass(frozen=True)
class Page:
    """What a report says beside its exhibits."""

    title: str
    suite: str
    lead: str = "Every number of this build, beside the published one and its difference from it."
    statement: Statement | None = None
    problems: tuple[str, ...] = ()
    """Runs that should be there and cannot be shown, a line each."""
    records: bool = True
    """Whether numbers link to the page of the runs they come from."""
    judged: bool = True
    """Whether the claims are judged on these numbers too, not only on the published ones."""


def build(sources: Sequence[Source], page: Page, folder: Path) -> None:
    """Write the pages, and beside them the tables' and figures' files, into `folder`.

    Raises:
        BuildError: when an exhibit cannot be read.
    """
    exhibits = [read_exhibit(source.folder / f"{source.name}.json") for source in sources]
    for source in sources:
        _copy_files(source.folder, folder)
    judged, found = _judged(exhibits), slips(published())
    _write_claims(judged, found, folder)
    write_views(exhibits, folder / "tables")
    context = {
        "page": page,
        "paper": published(),
        "exhibits": exhibits,
        "claims": judged,
        "slips": found,
        "facts": [fact for exhibit in exhibits for fact in exhibit.facts],
        "curves": _curves(folder),
        "records_page": RECORDS_PAGE,
    }
    environment = page_environment(folder)
    for template, target in (("index.html.j2", "index.html"), ("report.md.j2", "report.md")):
        text = environment.get_template(template).render(context)
        (folder / target).write_text(text, encoding="utf-8", newline="\n")


def _judged(exhibits: Sequence[Exhibit]) -> tuple[Claim, ...]:
    measured = [exhibit for exhibit in exhibits if exhibit.name in PAPER_EXHIBITS]
    build = evidence_of(cell for exhibit in measured for cell in exhibit.cells)
    return claims(build, published_evidence(published()))


def _write_claims(judged: Sequence[Claim], found: Sequence[Slip], folder: Path) -> None:
    """Write the checked list for machines."""
    target = folder / "tables" / "claims.json"
    target.parent.mkdir(exist_ok=True)
    content = {
        "claims": [claim.model_dump(mode="json") for claim in judged],
        "slips": [slip.model_dump(mode="json") for slip in found],
    }
    target.write_text(json_text(content), encoding="utf-8", newline="\n")


def _curves(folder: Path) -> Markup | None:
    """Return the training curves' data for a script element, or None when there are none."""
    path = folder / "tables" / curves.DATA_FILE
    if not path.is_file():
        return None
    text = json.dumps(json.loads(path.read_text(encoding="utf-8")), separators=(",", ":"))
    return Markup(text.replace("<", r"\u003c"))


def _copy_files(source: Path, folder: Path) -> None:
    for path in sorted(source.iterdir()):
        if path.suffix in _FOLDERS:
            target = folder / _FOLDERS[path.suffix]
            target.mkdir(exist_ok=True)
            shutil.copyfile(path, target / path.name)


def page_environment(folder: Path) -> jinja2.Environment:
    """Return the template engine; HTML is escaped by default, Markdown by the filter `md`.

    Args:
        folder: Where the page is written; figures are read from its `figures/`.
    """

    def figure(drawing: Drawing) -> Markup:
        text = (folder / "figures" / f"{drawing.name}.svg").read_text(encoding="utf-8")
        return Markup(svg.inline(text, drawing.name, drawing.alt))

    def markdown_table(exhibit: Exhibit) -> str:
        return to_markdown(exhibit.table) if exhibit.table else ""

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(md=escaping.markdown, figure=figure, markdown_table=markdown_table)
    return environment
