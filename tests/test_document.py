"""params.yaml as people write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from deeploop.document import line_of, read_document
from deeploop.errors import UserError


def read(tmp_path: Path, text: str | bytes) -> object:
    path = tmp_path / "params.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_document(path)[0]


def test_numbers_as_people_write_them(tmp_path: Path) -> None:
    text = "a: 1e-3\nb: 2.5E+4\nc: -1e3\nd: 100_000\ne: .5e1\nf: 1e-3x\ng: '1e-3'\n"
    assert read(tmp_path, text) == {
        "a": 1e-3,
        "b": 2.5e4,
        "c": -1e3,
        "d": 100_000,
        "e": 5.0,
        "f": "1e-3x",
        "g": "1e-3",
    }


def test_merged_keys_may_be_replaced(tmp_path: Path) -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n"
    assert read(tmp_path, text) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "params.yaml: is empty"),
        ("- 1\n", "params.yaml: must hold keys"),
        ("a: [1\nb: 2\n", "params.yaml:2: not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", "params.yaml:3: 'a' is given twice"),
        (b"a: \xff\n", "params.yaml: not UTF-8 (byte 3)"),
        ("a: !!python/object:os.system x\n", "params.yaml:1: not valid YAML"),
        ("[1, 2]: 3\n", "params.yaml:1: a key must be plain text"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"params\.yaml: no such file"):
        read_document(tmp_path / "params.yaml")


def test_lines_are_found_by_key_path() -> None:
    text = "a:\n  b:\n    - c: 1\n    - d: 2\n"
    assert line_of(text, ("a", "b", 1, "d")) == 4
    assert line_of(text, ("a", "b", 1, "gone")) == 4
    assert line_of(text, ("nowhere",)) is None
