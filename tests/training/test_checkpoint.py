from __future__ import annotations

import logging
import os
import resource
import subprocess
from pathlib import Path

import pytest
import torch

from deeploop.errors import BuildError
from deeploop.training.checkpoint import KEPT, TENSORS, Checkpoint, load_latest, save

IDENTITY = {"model": {"loops": 3}, "seed": 1}


def checkpoint(step: int) -> Checkpoint:
    tensors = {"weight": torch.arange(100.0) + step, "step": torch.tensor(float(step))}
    return Checkpoint(step, IDENTITY, tensors, {"validations": [{"step": step, "loss": 0.1}]})


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    save(tmp_path, checkpoint(5))
    found = load_latest(tmp_path, IDENTITY)
    assert found is not None
    assert found.step == 5 and found.meta == checkpoint(5).meta
    assert torch.equal(found.tensors["weight"], checkpoint(5).tensors["weight"])


def test_nothing_saved_is_a_fresh_start(tmp_path: Path) -> None:
    assert load_latest(tmp_path / "nowhere", IDENTITY) is None


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (2, 30, 400, 5000):
        save(tmp_path, checkpoint(step))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000400", "step-00005000"]
    assert KEPT == 2


@pytest.mark.parametrize("damage", [flip_bit, truncate, Path.unlink])
@pytest.mark.parametrize("name", [TENSORS, "meta.json", "SHA256SUMS"])
def test_a_damaged_newest_falls_back_to_the_older_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage, name: str
) -> None:
    save(tmp_path, checkpoint(5))
    damage(save(tmp_path, checkpoint(6)) / name)
    with caplog.at_level(logging.WARNING):
        found = load_latest(tmp_path, IDENTITY)
    assert found is not None and found.step == 5
    assert "step-00000006 is damaged" in caplog.text


def test_both_damaged_is_a_clear_error(tmp_path: Path) -> None:
    for step in (5, 6):
        flip_bit(save(tmp_path, checkpoint(step)) / TENSORS)
    with pytest.raises(BuildError, match=r"no checkpoint in .* verifies \(2 damaged\)"):
        load_latest(tmp_path, IDENTITY)


def test_another_configuration_is_refused_with_the_differing_keys(tmp_path: Path) -> None:
    save(tmp_path, checkpoint(5))
    with pytest.raises(BuildError, match=r"model\.loops: 3, not 5"):
        load_latest(tmp_path, {"model": {"loops": 5}, "seed": 1})


def test_a_partial_write_is_not_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, checkpoint(5))
    (tmp_path / ".partial-00000006").mkdir()
    found = load_latest(tmp_path, IDENTITY)
    assert found is not None and found.step == 5


def test_sums_are_what_sha256sum_reads(tmp_path: Path) -> None:
    path = save(tmp_path, checkpoint(5))
    subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=path, check=True, capture_output=True)


def test_a_write_that_the_system_refuses_is_one_clear_line(tmp_path: Path) -> None:
    """A limit on file sizes stands in for a full disk: safetensors reports both its own way."""
    save(tmp_path, checkpoint(5))
    large = Checkpoint(6, IDENTITY, {"weight": torch.zeros(10_000)}, {})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(BuildError, match=r"File too large; still there: step-00000005\."):
            save(tmp_path, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000005"]
    assert load_latest(tmp_path, IDENTITY) is not None
    save(tmp_path, large)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where it likes")
def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    save(tmp_path, checkpoint(5))
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(BuildError, match="still there: step-00000005"):
            save(tmp_path, checkpoint(6))
    finally:
        tmp_path.chmod(0o700)
