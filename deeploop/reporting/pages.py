"""The pages that assemble exhibits: `index.html` and `report.md`, pure functions of their files."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from deeploop.reporting import escaping, svg
from deeploop.reporting.exhibits import Drawing, Exhibit, read_exhibit
from deeploop.reporting.published import published
from deeploop.reporting.statement import statement
from deeploop.reporting.tables import to_markdown

TEMPLATES = Path(__file__).resolve().parents[2] / "reports" / "templates"

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


def build(sources: Sequence[Source], title: str, suite: str, folder: Path) -> None:
    """Write the pages, and beside them the tables' and figures' files, into `folder`.

    Raises:
        BuildError: when an exhibit cannot be read.
    """
    exhibits = [read_exhibit(source.folder / f"{source.name}.json") for source in sources]
    for source in sources:
        _copy_files(source.folder, folder)
    context = {
        "title": title,
        "suite": suite,
        "statement": statement(suite),
        "paper": published(),
        "exhibits": exhibits,
        "facts": [fact for exhibit in exhibits for fact in exhibit.facts],
    }
    environment = _environment(folder)
    for template, target in (("index.html.j2", "index.html"), ("report.md.j2", "report.md")):
        text = environment.get_template(template).render(context)
        (folder / target).write_text(text, encoding="utf-8", newline="\n")


def _copy_files(source: Path, folder: Path) -> None:
    for path in sorted(source.iterdir()):
        if path.suffix in _FOLDERS:
            target = folder / _FOLDERS[path.suffix]
            target.mkdir(exist_ok=True)
            shutil.copyfile(path, target / path.name)


def _environment(folder: Path) -> jinja2.Environment:
    """Return the template engine; HTML is escaped by default, Markdown by the filter `md`."""

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
