from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench import arc_reference
from deeploop.arc.grids import augment, crop, encode
from deeploop.arc.identifiers import Identifiers, identifier_names, parse_names
from deeploop.arc.kernels.votes import corner_shape
from deeploop.arc.plan import ArcPlan, PlanSettings, make_plan
from deeploop.arc.puzzles import Pair, Puzzle, PuzzleSet
from deeploop.arc.vote import KS, Vote, hash_tokens, vote
from deeploop.errors import UserError
from tests.arc.made_up_votes import made_up_predictions, save, take

SIZE = 8


@pytest.fixture
def plan(sets: list[PuzzleSet]) -> ArcPlan:
    return make_plan(sets, PlanSettings(40, grid_size=SIZE))


@pytest.mark.parametrize("seed", range(12))
def test_scores_equal_a_count_by_dictionaries(plan: ArcPlan, tmp_path: Path, seed: int) -> None:
    columns = made_up_predictions(plan, seed, right=0.05 + 0.03 * seed)
    path = save(columns, tmp_path / "p.parquet")
    expected = arc_reference.vote(identifier_names(plan), columns, KS)
    scores = vote(path, Identifiers.of_plan(plan), ties="first_seen").scores
    assert scores.votes == expected
    assert (scores.puzzles, scores.tests) == (2, 3)
    tied = vote(path, Identifiers.of_plan(plan)).scores
    for k in KS:
        assert tied.ties[k] or tied.votes[k] == expected[k]


def outcome(voted: Vote) -> tuple[object, ...]:
    return voted.scores, voted.tests.rows(), voted.candidates.drop("row").rows()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_votes_do_not_depend_on_the_order_of_rows(plan: ArcPlan, tmp_path: Path, seed: int) -> None:
    columns, identifiers = made_up_predictions(plan, seed % 5), Identifiers.of_plan(plan)
    order = np.random.default_rng(seed).permutation(len(columns["preds"]))
    straight = vote(save(columns, tmp_path / "p.parquet"), identifiers)
    mixed = vote(save(take(columns, order), tmp_path / "q.parquet"), identifiers)
    assert outcome(straight) == outcome(mixed)


def rows_that_say(
    plan: ArcPlan, said: list[tuple[list[list[int]], float]]
) -> dict[str, np.ndarray]:
    """Return predictions of a plan's only test: member m answers `said[m]` with a halting logit."""
    columns = take(made_up_predictions(plan, 0), np.arange(len(said)))
    columns["preds"] = columns["preds"].copy()
    for member, (grid, _) in enumerate(said):
        image = augment(np.array(grid, np.uint8), plan.symmetries[member], plan.colours[member])
        columns["preds"][member] = encode(image, SIZE)
    columns["q_halt_logits"] = np.array([logit for _, logit in said], np.float32)
    return columns


@pytest.fixture
def alone() -> ArcPlan:
    """One evaluation puzzle with one test, whose label is [[1, 2, 3]]."""
    pair = Pair(np.array([[4, 5]], np.uint8), np.array([[1, 2, 3]], np.uint8))
    puzzle = Puzzle("x", (pair,), (Pair(np.array([[4, 5, 6]], np.uint8), pair.output),))
    return make_plan([PuzzleSet("evaluation", (puzzle,))], PlanSettings(9, grid_size=SIZE))


RIGHT, WRONG, OTHER = [[1, 2, 3]], [[1, 2, 4]], [[7]]


@pytest.mark.parametrize(
    ("said", "first", "second", "ties"),
    [
        ([(RIGHT, -5.0), (RIGHT, -5.0), (WRONG, 5.0)], 1, 1, 0),  # count comes first
        ([(RIGHT, -1.0), (WRONG, 1.0)], 0, 1, 0),  # then probability
        ([(RIGHT, -1.0), (WRONG, -1.0), (RIGHT, 2.0), (WRONG, 1.0)], 1, 1, 0),  # its mean
        ([(WRONG, 5.0), (WRONG, 5.0), (OTHER, 1.0), (OTHER, 1.0), (RIGHT, 9.0)], 0, 0, 0),
        ([(WRONG, 5.0)] * 3 + [(RIGHT, 5.0), (OTHER, 5.0)], 0, None, 0),  # a tie for the second
        ([(RIGHT, 1.0), (WRONG, 1.0)], None, 1, 1),  # a tie for the first
    ],
)
def test_count_first_then_mean_probability_over_distinct_grids(
    alone: ArcPlan,
    tmp_path: Path,
    said: list[tuple[list[list[int]], float]],
    first: int | None,
    second: int | None,
    ties: int,
) -> None:
    path = save(rows_that_say(alone, said), tmp_path / "p.parquet")
    scores = vote(path, Identifiers.of_plan(alone)).scores
    assert first is None or scores.votes[1] == first
    assert second is None or scores.votes[2] == second
    assert scores.ties[1] == ties
    assert scores.ties[2] == (second is None)
    assert scores.votes[1000] == 1


def test_hrm_keeps_the_order_of_rows_in_ties(alone: ArcPlan, tmp_path: Path) -> None:
    said = [(RIGHT, 1.0), (WRONG, 1.0)]
    identifiers = Identifiers.of_plan(alone)
    columns = rows_that_say(alone, said)
    one = save(columns, tmp_path / "one.parquet")
    other = save(take(columns, np.array([1, 0])), tmp_path / "other.parquet")
    assert vote(one, identifiers, "first_seen").scores.votes[1] == 1
    assert vote(other, identifiers, "first_seen").scores.votes[1] == 0
    assert vote(one, identifiers).scores == vote(other, identifiers).scores


def test_a_puzzle_counts_when_all_its_tests_are_right_the_prize_counts_tests(
    plan: ArcPlan, tmp_path: Path
) -> None:
    columns = made_up_predictions(plan, 0, right=1.0)
    columns["preds"] = columns["labels"].copy()
    names = Identifiers.of_plan(plan)
    two_tests = names.puzzles[columns["puzzle_identifiers"]] == names.puzzle_names.index("b1")
    rows = np.flatnonzero(two_tests)
    plain = columns["inputs"][~names.augmented[columns["puzzle_identifiers"]] & two_tests]
    first = hash_tokens(plain[:1], names, np.array([1]), 0)  # as if un-augmented: it is
    mine = hash_tokens(columns["inputs"][rows], names, columns["puzzle_identifiers"][rows], 0)
    columns["preds"][rows[(mine == first).all(axis=1)]] = 0
    scores = vote(save(columns, tmp_path / "p.parquet"), names).scores
    assert scores.votes == dict.fromkeys(KS, 0.5)
    assert scores.per_test == dict.fromkeys(KS, 2 / 3)


def test_rows_that_fill_batches_do_not_count(plan: ArcPlan, tmp_path: Path) -> None:
    columns = made_up_predictions(plan, 3)
    blank = {name: np.concatenate([array[:5], array]) for name, array in columns.items()}
    blank["puzzle_identifiers"][:5] = 0
    identifiers = Identifiers.of_plan(plan)
    one = vote(save(columns, tmp_path / "p.parquet"), identifiers)
    other = vote(save(blank, tmp_path / "q.parquet"), identifiers)
    assert outcome(one) == outcome(other)
    assert (other.candidates["row"] >= 5).all()


def change(columns: dict[str, np.ndarray], what: str, names: Identifiers) -> None:
    plain = ~names.augmented[columns["puzzle_identifiers"]]
    if what == "identifiers":
        columns["puzzle_identifiers"][0] = len(names.puzzles)
    elif what == "negative":
        columns["puzzle_identifiers"][0] = -1
    elif what == "blank":
        columns["puzzle_identifiers"][:] = 0
    elif what == "input":
        columns["inputs"][np.flatnonzero(~plain)[0], 0] = 1
    elif what == "labels":
        row = np.flatnonzero(plain)[0]
        for name in columns:
            columns[name] = np.concatenate([columns[name], columns[name][row : row + 1]])
        columns["labels"][-1, :2] = 1
    else:
        puzzles = names.puzzles[columns["puzzle_identifiers"]]
        gone = plain & (puzzles == puzzles[0]) if what == "puzzle" else plain
        for name in columns:
            columns[name] = columns[name][~gone]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            "identifiers",
            r"puzzle identifiers \d+ to \d+, but the data set has 1 to \d+: these are not",
        ),
        ("negative", "puzzle identifiers -1 to"),
        ("blank", "no predictions"),
        ("input", r"1 row.s. have inputs that are no test of their puzzle .* row \d+, of puzzle b"),
        ("labels", "puzzle b.: un-augmented rows give one input different labels"),
        ("plain", "no un-augmented rows, which say what the tests are"),
        ("puzzle", "1 puzzle.s. have no un-augmented rows: b"),
    ],
)
def test_predictions_that_do_not_fit_the_identifiers_are_refused(
    plan: ArcPlan, tmp_path: Path, what: str, message: str
) -> None:
    columns, names = made_up_predictions(plan, 0), Identifiers.of_plan(plan)
    change(columns, what, names)
    with pytest.raises(UserError, match=message):
        vote(save(columns, tmp_path / "p.parquet"), names)


def test_an_empty_table_is_refused(plan: ArcPlan, tmp_path: Path) -> None:
    columns = take(made_up_predictions(plan, 0), np.arange(0))
    frame = pl.DataFrame(
        {
            name: pl.Series([], dtype=pl.Binary) if array.ndim == 2 else array
            for name, array in columns.items()
        }
    )
    frame.write_parquet(tmp_path / "p.parquet")
    with pytest.raises(UserError, match="no predictions"):
        vote(tmp_path / "p.parquet", Identifiers.of_plan(plan))


@given(st.lists(st.sampled_from([0, 1, 2, 7, 11, 12, 255]), min_size=36, max_size=36))
def test_the_compiled_crop_is_the_defined_one(tokens: list[int]) -> None:
    array = np.array(tokens, np.uint8)
    assert corner_shape(array, 6) == crop(array, 6).shape


@given(st.integers(0, 2**32 - 1))
def test_hashes_tell_grids_apart_and_see_through_augmentation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = rng.integers(0, 10, rng.integers(1, SIZE + 1, 2)).astype(np.uint8)
    other = grid.copy()
    other.flat[rng.integers(grid.size)] += 1
    other %= 10
    count = 8
    colours = np.array([rng.permutation(10) for _ in range(count)], np.uint8)
    names = Identifiers(
        ["x"], np.zeros(count, int), np.arange(count, dtype=np.uint8), colours, np.ones(count, bool)
    )

    def hashes(of: np.ndarray, side: int) -> set[tuple[int, ...]]:
        tokens = np.stack([encode(augment(of, s, colours[s]), SIZE) for s in range(count)])
        return {tuple(row) for row in hash_tokens(tokens, names, np.arange(count), side).tolist()}

    assert len(hashes(grid, 1)) == 1
    assert len(hashes(grid, 1) | hashes(other, 1) | hashes(grid, 0) | hashes(grid.T, 1)) == (
        3 if np.array_equal(grid, grid.T) else 4
    )


def test_the_order_of_ties_is_the_same_on_every_machine_and_numpy() -> None:
    names = parse_names(["x"], "")
    tokens = encode(np.array([[1, 2, 3]], np.uint8), SIZE)[None]
    [pair] = hash_tokens(tokens, names, np.array([0]), 1).tolist()
    assert pair == [7843728331671723619, 2312124926606036448]
