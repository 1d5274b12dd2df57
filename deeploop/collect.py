"""Garbage collection: what in the store nothing leads to any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deeploop.document import read_document
from deeploop.fileio import read_json, sha256_text
from deeploop.locks import holder_of
from deeploop.plan import load_plan
from deeploop.project import PLAN_FILE, store_root
from deeploop.resolve import Resolver
from deeploop.verify import shown_runs


@dataclass(frozen=True)
class Garbage:
    """One thing in the store that may go."""

    path: Path
    what: str
    bytes: int


def garbage(root: Path) -> list[Garbage]:
    """Return what no suite's manifests reach; never what a run would resume from."""
    store = store_root(root)
    keys, specs = _wanted(root)
    return [
        Garbage(path, what, _size(path))
        for path, what in (
            *_unreached_entries(store, {(s.stage, s.key) for s in shown_runs(root)} | keys),
            *_idle_partials(store, keys, specs),
            *_unreached_code(root, store),
        )
    ]


def _wanted(root: Path) -> tuple[set[tuple[str, str]], set[str]]:
    """Return (stage, key) of what any suite wants, and sha256 of specifications without a key."""
    document, _ = read_document(root / PLAN_FILE)
    keys: set[tuple[str, str]] = set()
    undecided: set[str] = set()
    for suite in document["suites"]:
        resolver = Resolver(root, load_plan(root, suite), write=False)
        keys |= {(run.stage, key) for run, key in resolver.keys.items()}
        undecided |= {sha256_text(run.spec_text) for run in resolver.undecided()}
    return keys, undecided


def _unreached_entries(store: Path, reached: set[tuple[str, str]]) -> Iterator[tuple[Path, str]]:
    for path in sorted(store.glob("*/*/manifest.json")):
        folder = path.parent
        if (folder.parent.name, folder.name) in reached or folder.name.endswith(".partial"):
            continue
        damaged = ".damaged-" in folder.name
        yield folder, "a damaged entry, set aside" if damaged else "an entry that no suite shows"


def _idle_partials(
    store: Path, wanted: set[tuple[str, str]], undecided: set[str]
) -> Iterator[tuple[Path, str]]:
    for folder in sorted(store.glob("*/*.partial")):
        stage, key = folder.parent.name, folder.name.removesuffix(".partial")
        locked = holder_of(folder.with_name(f"{key}.lock"))
        spec = (read_json(folder / "job.json") or {}).get("spec_sha256")
        if not locked and (stage, key) not in wanted and spec not in undecided:
            yield folder, "an interrupted run that no suite wants"


def _unreached_code(root: Path, store: Path) -> Iterator[tuple[Path, str]]:
    pointers = [read_json(path) or {} for path in root.glob("results/*/plan.json")]
    plans = {pointer.get("plan") for pointer in pointers}
    code = {pointer.get("code") for pointer in pointers}
    code |= {(read_json(path) or {}).get("code") for path in store.glob("*/*.partial/job.json")}
    for path in sorted(store.glob("plans/*.json")):
        if path.stem not in plans:
            yield path, "a plan that no suite is at"
    for folder in sorted(store.glob("code/*")):
        if folder.name not in code:
            yield folder, "code that no plan or interrupted run uses"


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
