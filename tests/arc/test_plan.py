from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import arc_reference
from deeploop.arc.files import small_files
from deeploop.arc.grids import augment, encode
from deeploop.arc.identifiers import identifier_names
from deeploop.arc.plan import SPLITS, ArcPlan, PlanSettings, make_plan
from deeploop.arc.puzzles import Pair, Puzzle, PuzzleSet
from deeploop.arc.rows import ArcRows
from deeploop.errors import UserError


def rows_by_identifier(plan: ArcPlan) -> dict[str, list[bytes]]:
    """Return the rows of each identifier, so that plans of other puzzles can be compared."""
    names, rows = identifier_names(plan), ArcRows(plan, "train")
    inputs, labels, identifiers = rows.render(np.arange(rows.count))
    found: dict[str, list[bytes]] = {}
    for one, two, identifier in zip(inputs, labels, identifiers, strict=True):
        found.setdefault(names[identifier], []).append(one.tobytes() + two.tobytes())
    return found


@pytest.mark.parametrize("size", [6, 11, 30])
@pytest.mark.parametrize("augmentations", [0, 5, 80])
@pytest.mark.parametrize("seed", [42, 7])
def test_hrm_mode_equals_a_builder_that_takes_one_example_at_a_time(
    sets: list[PuzzleSet], size: int, augmentations: int, seed: int
) -> None:
    plan = make_plan(sets, PlanSettings(augmentations, seed=seed, grid_size=size))
    names, arrays = arc_reference.build(sets, augmentations, seed, size)
    assert identifier_names(plan) == names
    for split in SPLITS:
        rows = ArcRows(plan, split)
        inputs, labels, _ = rows.render(np.arange(rows.count))
        assert np.array_equal(inputs, arrays[split]["inputs"])
        assert np.array_equal(labels, arrays[split]["labels"])
        for name in ("puzzle_identifiers", "puzzle_indices", "group_indices"):
            assert np.array_equal(getattr(rows, name), arrays[split][name]), name


def test_puzzles_with_few_distinct_augmentations_keep_all_there_are() -> None:
    """One cell of one colour, which every symmetry keeps: nine colours for it, and no more."""
    cell = Pair(np.array([[3]], np.uint8), np.array([[3]], np.uint8))
    plan = make_plan([PuzzleSet("training", (Puzzle("x", (cell,), (cell,)),))], PlanSettings(50))
    assert plan.puzzles[0].members == 9
    assert plan.trials == 250


def test_rows_are_the_definitions_encoded_and_shifted(sets: list[PuzzleSet]) -> None:
    plan = make_plan(sets, PlanSettings(20, mode="philox", grid_size=9))
    for split in SPLITS:
        rows = ArcRows(plan, split)
        inputs, labels, identifiers = rows.render(np.arange(rows.count))
        members = np.repeat(np.arange(len(rows.puzzle_identifiers)), np.diff(rows.puzzle_indices))
        assert np.array_equal(identifiers, rows.puzzle_identifiers[members])
        for row in range(rows.count):
            member = identifiers[row] - 1
            index = int(np.searchsorted(plan.member_starts, member, side="right")) - 1
            puzzle = next(
                p for one in sets for p in one.puzzles if p.name == plan.puzzles[index].name
            )
            pairs = puzzle.test if split == "test" else (puzzle.train + puzzle.test)
            pair = pairs[row - rows.puzzle_indices[members[row]]]
            top, left = plan.padding[row] if split == "train" else (0, 0)
            for grid, tokens in ((pair.input, inputs[row]), (pair.output, labels[row])):
                image = augment(grid, plan.symmetries[member], plan.colours[member])
                assert np.array_equal(tokens, encode(image, 9, top, left))


def test_one_example_of_each_augmented_puzzle_stays_in_the_corner(sets: list[PuzzleSet]) -> None:
    for mode in ("hrm", "philox"):
        plan = make_plan(sets, PlanSettings(30, mode=mode))
        rows = ArcRows(plan, "train")
        still = np.logical_and.reduce(plan.padding == 0, axis=1)
        starts = rows.puzzle_indices[:-1]
        assert np.add.reduceat(still, starts).min() == 1
        assert not still.all()


def test_philox_does_not_depend_on_the_order_or_company_of_puzzles(sets: list[PuzzleSet]) -> None:
    settings = PlanSettings(40, mode="philox")
    plan = make_plan(sets, settings)
    shuffled = [replace(one, puzzles=one.puzzles[::-1]) for one in sets[::-1]]
    assert small_files(make_plan(shuffled, settings)) == small_files(plan)
    assert np.array_equal(make_plan(shuffled, settings).padding, plan.padding)
    fewer = [replace(one, puzzles=one.puzzles[1:]) for one in sets]
    everything = rows_by_identifier(plan)
    for name, rows in rows_by_identifier(make_plan(fewer, settings)).items():
        assert everything[name] == rows


def test_philox_with_more_augmentations_extends_fewer(sets: list[PuzzleSet]) -> None:
    few = rows_by_identifier(make_plan(sets, PlanSettings(10, mode="philox")))
    many = rows_by_identifier(make_plan(sets, PlanSettings(60, mode="philox")))
    assert few.items() <= many.items() and len(many) > 2 * len(few)


def test_philox_does_not_depend_on_key_order_but_on_the_seed(sets: list[PuzzleSet]) -> None:
    flipped = [
        replace(one, puzzles=tuple(replace(p, test_first=not p.test_first) for p in one.puzzles))
        for one in sets
    ]
    first, second = (make_plan(s, PlanSettings(9, mode="philox")) for s in (sets, flipped))
    assert np.array_equal(first.cells, second.cells)
    other = make_plan(sets, PlanSettings(9, mode="philox", seed=1))
    assert not np.array_equal(first.colours, other.colours)


def test_hrm_mode_follows_key_order_and_listing_order(sets: list[PuzzleSet]) -> None:
    plan = make_plan(sets, PlanSettings(3))
    straight = [replace(p, test_first=False) for p in sets[1].puzzles]
    other = make_plan([sets[0], replace(sets[1], puzzles=tuple(straight))], PlanSettings(3))
    assert not np.array_equal(plan.cells, other.cells)
    assert identifier_names(make_plan(sets[::-1], PlanSettings(3))) != identifier_names(plan)


def test_a_saved_plan_is_read_back_and_equal_plans_are_equal_bytes(
    sets: list[PuzzleSet], tmp_path: Path
) -> None:
    plan = make_plan(sets, PlanSettings(12))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        make_plan(sets, PlanSettings(12)).save(tmp_path / name)
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "plan.json",
        "plan.safetensors",
    ]
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    read = ArcPlan.load(tmp_path / "one")
    assert (read.settings, read.puzzles, read.trials) == (plan.settings, plan.puzzles, plan.trials)
    rows = np.arange(ArcRows(plan, "train").count)
    for ours, theirs in zip(
        ArcRows(plan, "train").render(rows),
        ArcRows(tmp_path / "one", "train").render(rows),
        strict=True,
    ):
        assert np.array_equal(ours, theirs)


def test_what_cannot_be_planned_is_said(sets: list[PuzzleSet], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not fit grid_size 2"):
        make_plan(sets, PlanSettings(1, grid_size=2))
    with pytest.raises(UserError, match="no puzzle fits grid_size 3"):
        make_plan([PuzzleSet("training", ())], PlanSettings(1, grid_size=3))
    with pytest.raises(UserError, match="no ARC plan here"):
        ArcPlan.load(tmp_path)


def test_rows_that_do_not_exist_are_refused(sets: list[PuzzleSet]) -> None:
    rows = ArcRows(make_plan(sets, PlanSettings(1)), "test")
    for row in (-1, rows.count):
        with pytest.raises(IndexError, match=f"0 to {rows.count - 1}"):
            rows.render(np.array([row]))
    inputs, _, identifiers = rows.render(np.array([], np.int64))
    assert inputs.shape == (0, 900) and identifiers.shape == (0,)
