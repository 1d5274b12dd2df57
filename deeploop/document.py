"""Reading params.yaml as people write it: `1e-3` is a number, a key given twice is a mistake."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from deeploop.errors import UserError

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """YAML with the floats of YAML 1.2 (`1e-3`) and without duplicate keys."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def _construct_mapping(loader: Any, node: Any) -> dict[Any, Any]:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise _Mistake(key_node, "a key must be plain text")
        if key_node.value in seen:
            raise _Mistake(key_node, f"'{key_node.value}' is given twice; remove one of the two")
        seen.add(key_node.value)
    loader.flatten_mapping(node)  # `<<` comes first, so that a key beside it replaces its own
    return {
        loader.construct_object(key, deep=True): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


class _Mistake(Exception):
    def __init__(self, node: Any, text: str) -> None:
        super().__init__(text)
        self.line = node.start_mark.line + 1


def read_document(path: Path) -> tuple[dict[str, Any], str]:
    """Return the mapping in a YAML file, and the file's text.

    Raises:
        UserError: for a file that is missing, not UTF-8, not YAML, empty, not a mapping, or that
            gives a key twice.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, not a file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path.name}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    try:
        document = yaml.load(text, Loader=_Loader)
    except _Mistake as mistake:
        raise UserError(f"{path.name}:{mistake.line}: {mistake}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path.name}{_where(error)}: not valid YAML: {_problem(error)}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path.name}: not valid YAML: {error}") from None
    if not isinstance(document, dict):
        what = "is empty" if document is None else "must hold keys and values at the top"
        raise UserError(f"{path.name}: {what}; it should name `suite` and `suites`")
    return document, text


def line_of(text: str, keys: Sequence[str | int]) -> int | None:
    """Return the line (from 1) at which the deepest existing part of a key path stands."""
    node, line = yaml.compose(text, Loader=yaml.SafeLoader), None
    for key in keys:
        step = _child(node, key)
        if step is None:
            break
        line, node = step
    return line


def _child(node: Any, key: str | int) -> tuple[int, Any] | None:
    if isinstance(node, yaml.MappingNode):
        for key_node, value in node.value:
            if key_node.value == str(key):
                return key_node.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key].start_mark.line + 1, node.value[key]
    return None


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}" if mark else ""


def _problem(error: yaml.YAMLError) -> str:
    text = getattr(error, "problem", None) or str(error)
    return " ".join(str(text).split())
