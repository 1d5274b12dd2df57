from __future__ import annotations

import ast
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import pytest

from deeploop.errors import UserError
from deeploop.text.config import DOCSTRING_PACKAGES
from deeploop.text.corpora import DocstringUnit
from deeploop.text.docstrings import _cleaned, _docstrings, package_docstrings

LONG = "A sentence that is long enough to be text rather than a label. " * 4


def test_docstrings_come_in_the_order_of_lines_and_short_ones_are_left_out() -> None:
    source = f'''"""Module. {LONG}"""
class Outer:
    """Outer. {LONG}"""
    def short(self):
        """Too short."""
    async def inner(self):
        """Inner. {LONG}"""
def last():
    r"""Last \\d. {LONG}"""
x = """Not a docstring. {LONG}"""
'''
    found = [text.split(".")[0] for text in _docstrings(source.encode(), Path("m.py"))]
    assert found == ["Module", "Outer", "Inner", "Last \\d"]


def test_indentation_is_removed_as_inspect_does_on_ordinary_docstrings() -> None:
    raw = "First.  \n\n    Indented:\n\n        deeper\tand a tab   \n    \n    Last.\n    "
    assert _cleaned(raw) == "First.\n\nIndented:\n\n    deeper  and a tab\n\nLast."
    assert _cleaned("\n  only\n") == "only"


def test_a_file_that_does_not_parse_is_named() -> None:
    with pytest.raises(UserError, match=r"cannot parse broken\.py"):
        list(_docstrings(b'def f(:\n    """x"""', Path("broken.py")))


def test_a_package_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match="no-such-package"):
        list(package_docstrings("no-such-package"))


def test_real_docstrings_are_those_of_the_package() -> None:
    import networkx

    texts = list(package_docstrings("networkx"))
    documented = ast.get_docstring(ast.parse(Path(networkx.__file__).read_text()))
    assert documented is not None and documented in texts


PINNED = {
    (
        ("networkx", "3.6.1"),
        ("matplotlib", "3.11.2"),
        ("polars", "2.1.0"),
    ): "68653cc93a9909f455bf53282a739c2380661edb1b5669b0411ff172742281b0",
}


def test_the_embedded_corpus_is_the_same_everywhere() -> None:
    packages = tuple((name, version(name)) for name in DOCSTRING_PACKAGES)
    if packages not in PINNED:
        pytest.skip(f"pinned for other versions than {packages}")
    texts = [document.text for document in DocstringUnit(packages).documents()]
    assert len(texts) == len(set(texts))
    assert sha256("\0".join(texts).encode()).hexdigest() == PINNED[packages]
