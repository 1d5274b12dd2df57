from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bench.arc_reference import crop as plain_crop
from deeploop.arc.grids import (
    END,
    SYMMETRIES,
    augment,
    crop,
    encode,
    invert_colours,
    transform,
    undo_augmentation,
)

GRIDS = st.tuples(st.integers(1, 30), st.integers(1, 30)).flatmap(
    lambda shape: arrays(np.uint8, shape, elements=st.integers(0, 9))
)
COLOURS = st.permutations(range(10)).map(lambda colours: np.array(colours, np.uint8))


@given(GRIDS, COLOURS)
def test_undoing_an_augmentation_gives_the_grid_back_under_all_symmetries(
    grid: np.ndarray, colours: np.ndarray
) -> None:
    for symmetry in range(SYMMETRIES):
        image = augment(grid, symmetry, colours)
        assert np.array_equal(undo_augmentation(image, symmetry, colours), grid)


def test_the_eight_symmetries_are_what_their_numbers_say() -> None:
    grid = np.array([[1, 2], [3, 4], [5, 6]], np.uint8)
    images = [transform(grid, symmetry).tolist() for symmetry in range(SYMMETRIES)]
    assert images == [
        [[1, 2], [3, 4], [5, 6]],
        [[2, 4, 6], [1, 3, 5]],
        [[6, 5], [4, 3], [2, 1]],
        [[5, 3, 1], [6, 4, 2]],
        [[2, 1], [4, 3], [6, 5]],
        [[5, 6], [3, 4], [1, 2]],
        [[1, 3, 5], [2, 4, 6]],
        [[6, 4, 2], [5, 3, 1]],
    ]


@given(COLOURS)
def test_inverse_colours_undo_colours(colours: np.ndarray) -> None:
    assert invert_colours(colours)[colours].tolist() == list(range(10))


@given(GRIDS, st.integers(0, 29), st.integers(0, 29))
def test_a_grid_is_read_back_from_the_corner_and_has_its_ends_marked(
    grid: np.ndarray, top: int, left: int
) -> None:
    height, width = grid.shape
    top, left = min(top, 30 - height), min(left, 30 - width)
    assert np.array_equal(crop(encode(grid, 30), 30), grid)
    square = encode(grid, 30, top, left).reshape(30, 30)
    assert np.array_equal(square[top : top + height, left : left + width], grid + 2)
    ends = np.zeros((30, 30), bool)
    ends[top + height : top + height + 1, left : left + width] = True
    ends[top : top + height, left + width : left + width + 1] = True
    assert np.array_equal(square == END, ends)


@pytest.mark.parametrize(
    ("name", "square", "shape"),
    [
        ("no end at all", np.full((30, 30), 5), (30, 30)),
        ("nothing", np.zeros((30, 30)), (0, 0)),
        ("the first cell is no colour", np.pad(np.full((29, 29), 5), ((0, 1), (1, 0))), (0, 0)),
        ("a hole leaves the larger part", "hole", (4, 2)),
        ("padding ends a grid as END does", np.pad(np.full((3, 4), 2), ((0, 27), (0, 26))), (3, 4)),
        ("a token beyond the colours ends it, too", "twelve", (2, 5)),
        ("of two equal areas the one with fewer rows", "tie", (1, 4)),
    ],
)
def test_cropping_corner_cases(name: str, square: np.ndarray | str, shape: tuple[int, int]) -> None:
    if isinstance(square, str):
        tokens = np.zeros((30, 30))
        if square == "hole":
            tokens[:4, :4] = 3
            tokens[1, 2] = 1
        elif square == "twelve":
            tokens[:2, :6] = 11
            tokens[:2, 5] = 12
        else:
            tokens[0, :4] = tokens[1, :2] = 2
        square = tokens
    assert crop(square.astype(np.uint8).reshape(-1), 30).shape == shape


@given(arrays(np.uint8, (25,), elements=st.sampled_from([0, 1, 2, 5, 11, 12])))
def test_cropping_agrees_with_trying_rectangles(tokens: np.ndarray) -> None:
    assert np.array_equal(crop(tokens, 5), plain_crop(tokens))
