from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deeploop.arc.identifiers import Identifiers, identifier_names, parse_names
from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.puzzles import PuzzleSet
from deeploop.errors import UserError


def test_names_say_what_the_plan_says(sets: list[PuzzleSet], tmp_path: Path) -> None:
    plan = make_plan(sets, PlanSettings(7))
    names = identifier_names(plan)
    (tmp_path / "identifiers.json").write_text(json.dumps(names))
    read, ours = Identifiers.read(tmp_path / "identifiers.json"), Identifiers.of_plan(plan)
    assert list(read.puzzle_names) == list(ours.puzzle_names)
    for name in ("puzzles", "symmetries", "colours", "augmented"):
        assert np.array_equal(getattr(read, name), getattr(ours, name)), name
    assert ours.augmented.sum() == len(names) - 1 - len(plan.puzzles)


@pytest.mark.parametrize(
    "name",
    [
        "my_task",
        "a_t8_0123456789",
        "a_t1_012345678",
        "a_t1_01234567899",
        "a_t1_0113456789",
        "a_t1_01234567:9",
        "a_s1_0123456789",
        "a_b_t1_0123456789",
        "a_",
        "a_t1_01234567\u0668\u0669",
    ],
)
def test_names_of_another_form_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"ids.json: '{name}' is not <puzzle>"):
        parse_names(["<blank>", "a", name], "ids.json")


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]"])
def test_a_file_that_is_no_list_of_names_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "ids.json").write_text(content)
    with pytest.raises(UserError, match=r"ids\.json: "):
        Identifiers.read(tmp_path / "ids.json")
