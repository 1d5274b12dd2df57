"""The embedded corpus: the docstrings of installed packages, read without importing them.

Only `.py` files that the package's installer lists are read, tests left out, and cleaned by our
own rule: `inspect.cleandoc` changed in Python 3.13, and the corpus must not.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, PackagePath, distribution
from pathlib import Path

from deeploop.errors import UserError

MIN_CHARACTERS = 200
"""A shorter docstring is a label, not text."""
TEST_FOLDERS = frozenset({"tests", "testing", "test"})

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def package_docstrings(package: str) -> Iterator[str]:
    """Yield the docstrings of a distribution, in the order of its files' names and of its lines.

    Raises:
        UserError: it is not installed, lists no Python files, or one cannot be parsed.
    """
    for path in _python_files(package):
        source = path.read_bytes()
        if b'"""' in source or b"'''" in source:
            yield from _docstrings(source, path)


def _python_files(package: str) -> list[Path]:
    try:
        listed = distribution(package).files or []
    except PackageNotFoundError as error:
        raise UserError(f"package {package}, whose docstrings are wanted, is not there") from error
    wanted = sorted((str(file), file) for file in listed if _is_read(file))
    if not wanted:
        raise UserError(f"package {package} lists no Python files: is it an editable install?")
    return [Path(str(file.locate())) for _, file in wanted]


def _is_read(file: PackagePath) -> bool:
    return file.suffix == ".py" and TEST_FOLDERS.isdisjoint(file.parts)


def _docstrings(source: bytes, path: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's invalid escapes
            tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise UserError(f"cannot parse {path}: {error}; leave its package out") from error
    nodes = [node for node in ast.walk(tree) if isinstance(node, _Documented)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    for node in nodes:
        raw = ast.get_docstring(node, clean=False)
        if raw is not None and len(text := _cleaned(raw)) >= MIN_CHARACTERS:
            yield text


def _cleaned(raw: str) -> str:
    """Remove the indentation that all lines but the first share, and blanks at both ends."""
    first, *rest = raw.expandtabs().split("\n")
    indents = [len(line) - len(line.lstrip(" ")) for line in rest if line.strip()]
    margin = min(indents, default=0)
    return "\n".join([first.strip(), *(line[margin:].rstrip() for line in rest)]).strip()
