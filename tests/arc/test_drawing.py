from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from deeploop.arc.drawing import CELL, MARGIN, PALETTE, TEXT, draw_png, draw_text
from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.puzzles import PuzzleSet
from deeploop.arc.sheet import Line, Tile, plan_of_puzzle, puzzle_lines

GRID = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)
LINES = [Line("x", (Tile("input", GRID), Tile("nothing", np.zeros((0, 0), np.uint8))))]


def test_a_picture_shows_each_cell_in_its_colour_and_is_deterministic(tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        draw_png(LINES, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    image = Image.open(tmp_path / "one.png")
    for (row, column), colour in np.ndenumerate(GRID):
        left, top = MARGIN + column * CELL, MARGIN + 2 * TEXT + 2 + row * CELL
        pixel = image.getpixel((left + CELL // 2, top + CELL // 2))
        assert pixel == tuple(bytes.fromhex(PALETTE[colour][1:]))


def test_text_has_digits_or_colours_and_keeps_to_the_width() -> None:
    plain = draw_text(LINES, coloured=False, columns=80)
    assert "1 2 3" in plain and "4 5 6" in plain and "nothing" in plain
    coloured = draw_text(LINES, coloured=True, columns=80)
    assert "\x1b[48;2;0;116;217m  \x1b[0m" in coloured and "1 2" not in coloured
    many = [Line("x", tuple(Tile("a grid", np.zeros((2, 9), np.uint8)) for _ in range(12)))]
    assert max(map(len, draw_text(many, coloured=False, columns=60).splitlines())) <= 60


def test_a_puzzle_is_shown_with_its_pairs_and_augmentations(sets: list[PuzzleSet]) -> None:
    plan = plan_of_puzzle(sets, "b1", 3)
    assert plan is not None and plan_of_puzzle(sets, "zz", 3) is None
    puzzle = sets[0].puzzles[0]
    plain, *augmented = puzzle_lines(plan, "b1", 2)
    assert [tile.caption for tile in plain.tiles] == [
        f"{pair} {role}"
        for pair in ("pair 0", "pair 1", "test 0", "test 1")
        for role in ("input", "output")
    ]
    shown = [tile.grid for tile in plain.tiles]
    grids = [g for pair in puzzle.train + puzzle.test for g in (pair.input, pair.output)]
    assert all(np.array_equal(a, b) for a, b in zip(shown, grids, strict=True))
    assert len(augmented) == 2 and augmented[0].title.startswith("augmentation 1: symmetry ")
    whole = make_plan(sets, PlanSettings(3))
    assert len(list(puzzle_lines(whole, "a2", 99))) == 4
