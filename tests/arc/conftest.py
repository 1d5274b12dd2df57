"""Puzzles for the tests: small made-up ones, and the real ones where they are at hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from deeploop.arc.puzzles import PuzzleSet
from tests.arc.made_up import Json, made_up_sets, made_up_values, write_sets

SHARED = Path(__file__).parents[3] / "shared" / "data" / "arc"


settings.register_profile("compiled", deadline=None)  # a first call compiles
settings.load_profile("compiled")


@pytest.fixture
def values() -> dict[str, dict[str, Json]]:
    """Made-up puzzles as JSON."""
    return made_up_values()


@pytest.fixture
def sets() -> list[PuzzleSet]:
    """Made-up puzzles, checked."""
    return made_up_sets()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes sets of puzzles to a folder."""

    def write_here(values: Mapping[str, Mapping[str, Any]], name: str = "raw") -> Path:
        return write_sets(tmp_path / name, values)

    return write_here


@pytest.fixture(scope="session")
def unpack(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpacks a repository's archive from ../shared, or skips the test."""

    def unpack_archive(name: str) -> Path:
        archive = SHARED / f"{name}.tar.gz"
        if not archive.is_file():
            pytest.skip(f"{archive} is not here")
        folder = tmp_path_factory.mktemp(name)
        shutil.unpack_archive(archive, folder)
        return next(folder.glob("data")) if (folder / "data").is_dir() else folder / "corpus"

    return unpack_archive
