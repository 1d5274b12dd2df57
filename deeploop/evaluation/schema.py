"""The official columns of the eight tasks, and the check that a file has them.

The harness's templates trust their input: a label of the wrong type scores 0 without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

Kind = Literal["string", "integer", "number", "strings", "choices"]
Row = Mapping[str, Any]

_ARC: Mapping[str, Kind] = {"question": "string", "choices": "choices", "answerKey": "string"}

COLUMNS: Mapping[str, Mapping[str, Kind]] = {
    "arc_challenge": _ARC,
    "arc_easy": _ARC,
    "hellaswag": {
        "activity_label": "string",
        "ctx_a": "string",
        "ctx_b": "string",
        "endings": "strings",
        "label": "string",
    },
    "openbookqa": {"question_stem": "string", "choices": "choices", "answerKey": "string"},
    "piqa": {"goal": "string", "sol1": "string", "sol2": "string", "label": "integer"},
    "sciq": {
        "support": "string",
        "question": "string",
        "distractor1": "string",
        "distractor2": "string",
        "distractor3": "string",
        "correct_answer": "string",
    },
    "social_iqa": {
        "context": "string",
        "question": "string",
        "answerA": "string",
        "answerB": "string",
        "answerC": "string",
        "label": "number",
    },
    "winogrande": {
        "sentence": "string",
        "option1": "string",
        "option2": "string",
        "answer": "string",
    },
}
"""What each task's definition reads; a file may have more columns."""

DESCRIPTIONS: Mapping[Kind, str] = {
    "string": "a string",
    "integer": "an integer",
    "number": "an integer, or a string of one",
    "strings": "a list of strings",
    "choices": "{text: list of strings, label: list of strings}",
}


def _keyed(row: Row) -> bool:
    return row["answerKey"] in row["choices"]["label"]


_ANSWERS: Mapping[str, tuple[str, Callable[[Row], bool], str]] = {
    "arc_challenge": ("answerKey", _keyed, "one of choices.label"),
    "arc_easy": ("answerKey", _keyed, "one of choices.label"),
    "openbookqa": (
        "answerKey",
        lambda row: row["answerKey"].lstrip() in row["choices"]["label"],
        "one of choices.label",
    ),
    "hellaswag": (
        "label",
        lambda row: row["label"] in {str(i) for i in range(len(row["endings"]))},
        "the index of an ending, as a string",
    ),
    "piqa": ("label", lambda row: row["label"] in (0, 1), "0 or 1"),
    "social_iqa": ("label", lambda row: int(row["label"]) in (1, 2, 3), "1, 2 or 3"),
    "winogrande": ("answer", lambda row: row["answer"] in ("1", "2"), '"1" or "2"'),
}


def fault(task: str, rows: Iterable[Row]) -> tuple[int, str] | None:
    """Return the first row that does not fit a task's schema and what is wrong with it.

    Args:
        task: one of `COLUMNS`.
        rows: documents, in file order.

    Returns:
        The row's index from 0 and one line that names the field, or None.
    """
    for index, row in enumerate(rows):
        problem = _row_fault(task, row)
        if problem:
            return index, problem
    return None


def _row_fault(task: str, row: Row) -> str | None:
    for name, kind in COLUMNS[task].items():
        if name not in row:
            return f"field '{name}' is missing"
        if not _is(kind, row[name]):
            return f"field '{name}' must be {DESCRIPTIONS[kind]}, not {_shown(row[name])}"
    if task in _ANSWERS:
        name, holds, wanted = _ANSWERS[task]
        if not holds(row):
            return f"field '{name}' must be {wanted}, not {_shown(row[name])}"
    if task == "winogrande" and "_" not in row["sentence"]:
        return f"field 'sentence' must have a gap '_', not {_shown(row['sentence'])}"
    return None


def _is(kind: Kind, value: Any) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return _is("integer", value) or (_is("string", value) and value.strip().isdigit())
    if kind == "strings":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, dict) and all(_is("strings", value.get(k)) for k in ("text", "label"))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
