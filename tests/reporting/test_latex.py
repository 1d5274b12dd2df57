"""The LaTeX tables compile, whatever the data is called."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from deeploop.reporting.drafts import EXHIBITS
from deeploop.reporting.partial_report import build_partial
from deeploop.reporting.published_report import build_published
from deeploop.reporting.tables import to_latex
from deeploop.resolve import Resolver
from tests.reporting import demo_suite
from tests.reporting.built_suite import fill, make_project
from tests.reporting.test_tables import NASTY, table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("latexmk") is None, reason="needs latexmk"),
]

DOCUMENT = r"""\documentclass{article}
\usepackage[paperwidth=60in,paperheight=60in,margin=1in]{geometry}
\usepackage[T1]{fontenc}
\usepackage{amssymb,booktabs,textcomp}
\begin{document}
%s
\end{document}
"""


def compile_tables(tables: list[str], folder: Path) -> None:
    (folder / "tables.tex").write_text(DOCUMENT % "\n\n".join(tables))
    command = ["latexmk", "-pdf", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_table_of_a_report_compiles(tmp_path: Path) -> None:
    built = demo_suite.build(tmp_path / "suite")
    build_published(tmp_path / "published")
    plan = make_project(tmp_path / "project", "extras")
    fill(tmp_path / "project", plan, steps=30)
    build_partial(Resolver(tmp_path / "project", plan, write=False), tmp_path / "extras")
    folders = (built / "tables", tmp_path / "published/tables", tmp_path / "extras/tables")
    paths = [path for folder in folders for path in sorted(folder.glob("*.tex"))]
    names = {path.stem for path in paths}
    assert names == {"scaling_rule", *EXHIBITS} - {"check_theory"}  # made up without a table
    compile_tables([path.read_text() for path in paths], tmp_path)


def test_a_table_of_awkward_names_compiles(tmp_path: Path) -> None:
    compile_tables([to_latex(table(NASTY))], tmp_path)
