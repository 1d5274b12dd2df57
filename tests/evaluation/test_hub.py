from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import datasets.config
import huggingface_hub.constants
import pytest

from deeploop.errors import BuildError, UserError
from deeploop.evaluation.config import PAPER_TASKS
from deeploop.evaluation.harness import definition, splits
from deeploop.evaluation.hub import HUB, fetch, fetch_all, pinned
from deeploop.evaluation.sources import SAMPLES, read_split

LOCAL = replace(HUB["piqa"], repository=str(SAMPLES / "piqa"), documents=30)
"""A folder of files opens as a repository of the hub does."""


@pytest.mark.parametrize("task", PAPER_TASKS)
def test_pins_are_what_the_installed_harness_would_load(task: str) -> None:
    stock = definition(task)
    assert HUB[task].repository == stock["dataset_path"]
    assert HUB[task].config == stock["dataset_name"]
    assert set(HUB[task].splits) == set(splits(stock))
    assert len(HUB[task].revision) == 40


def test_fetched_documents_are_those_of_the_repository(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fetch("piqa", LOCAL, tmp_path / name)
    for split in ("train", "validation"):
        files = [tmp_path / name / f"{split}.parquet" for name in ("one", "two")]
        original = read_split("piqa", SAMPLES / "piqa" / f"{split}.jsonl")
        assert read_split("piqa", files[0]).to_pylist() == original.to_pylist()
        assert files[0].read_bytes() == files[1].read_bytes()


def test_other_data_than_the_official_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 30 documents in 'validation', not 1838"):
        fetch("piqa", replace(LOCAL, documents=1838), tmp_path)
    with pytest.raises(UserError, match="has no split 'test'"):
        fetch("piqa", replace(LOCAL, evaluated="test"), tmp_path)


def test_without_network_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(BuildError) as error:
        fetch_all(["piqa"], tmp_path)
    assert "task piqa: baber/piqa cannot be fetched" in str(error.value)
    assert "deeploop fetch_tasks DIR --tasks piqa" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_task_without_a_pin_is_named() -> None:
    with pytest.raises(UserError, match="task boolq: no revision of its data is pinned"):
        pinned("boolq")
