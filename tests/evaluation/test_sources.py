from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deeploop.errors import UserError
from deeploop.evaluation.config import PAPER_TASKS
from deeploop.evaluation.harness import definition, load_tasks, splits
from deeploop.evaluation.schema import COLUMNS
from deeploop.evaluation.sources import SAMPLES, read_split, split_file, task_folders


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES, tmp_path / "mirror"))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _said(mirror: Path, task: str) -> str:
    with pytest.raises(UserError) as error:
        load_tasks(task_folders(mirror, [task]))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("task", "split", "field", "value", "said"),
    [
        ("piqa", "validation", "label", "0", "line 3: field 'label' must be an integer, not '0'"),
        ("piqa", "train", "label", -1, "line 3: field 'label' must be 0 or 1, not -1"),
        ("winogrande", "train", "answer", 1, "line 3: field 'answer' must be a string, not 1"),
        ("winogrande", "validation", "sentence", "No gap.", "field 'sentence' must have a gap"),
        ("hellaswag", "validation", "label", 2, "field 'label' must be a string, not 2"),
        ("hellaswag", "validation", "label", "", "field 'label' must be the index of an ending"),
        ("hellaswag", "train", "endings", "a, b", "field 'endings' must be a list of strings"),
        ("arc_easy", "test", "choices", ["a"], "field 'choices' must be {text: list of strings"),
        ("arc_challenge", "test", "answerKey", "E", "field 'answerKey' must be one of choices"),
        ("social_iqa", "train", "label", "0", "field 'label' must be 1, 2 or 3, not '0'"),
        ("social_iqa", "train", "label", "B", "must be an integer, or a string of one, not 'B'"),
        ("sciq", "test", "support", None, "field 'support' must be a string, not None"),
    ],
)
def test_a_wrong_value_names_task_file_line_and_field(
    mirror: Path, task: str, split: str, field: str, value: Any, said: str
) -> None:
    path = mirror / task / f"{split}.jsonl"
    rows = _rows(path)
    rows[2][field] = value
    _write(path, rows)
    message = _said(mirror, task)
    assert message.startswith(f"task {task}: {path}, line 3: ")
    assert said in message


@pytest.mark.parametrize("task", PAPER_TASKS)
def test_every_column_that_a_definition_reads_is_checked(mirror: Path, task: str) -> None:
    split = splits(definition(task))[0]
    path = mirror / task / f"{split}.jsonl"
    whole = _rows(path)
    for field in COLUMNS[task]:
        _write(path, [{k: v for k, v in row.items() if k != field} for row in whole])
        assert f"{path}, line 1: field '{field}' is missing" in _said(mirror, task)
    _write(path, [{field: row[field] for field in COLUMNS[task]} for row in whole])
    load_tasks(task_folders(mirror, [task]))  # and nothing else is read


def test_a_missing_split_names_the_file_and_the_command_that_fetches_it(mirror: Path) -> None:
    (mirror / "sciq" / "train.jsonl").unlink()
    message = _said(mirror, "sciq")
    assert "split 'train' is missing" in message
    assert str(mirror / "sciq" / "train.parquet") in message
    assert "deeploop fetch_tasks" in message


def test_other_damage_is_one_line_too(mirror: Path) -> None:
    path = mirror / "piqa" / "train.jsonl"
    path.write_text('{"goal": "x"\n')
    assert f"{path}, line 1: not JSON" in _said(mirror, "piqa")
    path.write_text("[1]\n")
    assert f"{path}, line 1: not a JSON object" in _said(mirror, "piqa")
    path.write_text("")
    assert f"{path} has no documents" in _said(mirror, "piqa")
    path.with_suffix(".parquet").write_bytes(b"PAR1")
    assert "keep one" in _said(mirror, "piqa")
    path.unlink()
    assert "not a readable Parquet file" in _said(mirror, "piqa")


def test_parquet_and_json_lines_give_the_same_documents(mirror: Path) -> None:
    for task in PAPER_TASKS:
        path = split_file(task, mirror / task, "train")
        table = read_split(task, path)
        pq.write_table(table, path.with_suffix(".parquet"))
        assert read_split(task, path.with_suffix(".parquet")).to_pylist() == table.to_pylist()


def test_a_wrong_type_in_parquet_names_row_and_field(mirror: Path) -> None:
    path = mirror / "piqa" / "validation.jsonl"
    rows = [{**row, "label": str(row["label"])} for row in _rows(path)]
    pq.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet"))
    path.unlink()
    message = _said(mirror, "piqa")
    assert f"{path.with_suffix('.parquet')}, row 1: field 'label' must be an integer" in message


def test_a_task_without_known_schema_is_checked_by_its_templates(mirror: Path) -> None:
    (mirror / "lambada_openai").mkdir()
    _write(mirror / "lambada_openai" / "test.jsonl", [{"words": "no text here"}])
    message = _said(mirror, "lambada_openai")
    assert message.startswith("task lambada_openai: the documents in ")
    assert "'text' is undefined" in message


def test_unknown_names_are_refused(mirror: Path) -> None:
    for name in ("piqua", "mmlu"):
        (mirror / name).mkdir()
    assert _said(mirror, "piqua") == "task piqua: lm-evaluation-harness has no task of this name"
    assert "is a group of tasks in the harness" in _said(mirror, "mmlu")
