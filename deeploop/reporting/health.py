"""Which runs can be shown, which are still to come, and which are damaged: named, not hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeploop.fileio import read_json, sha256_file
from deeploop.plan import Run
from deeploop.resolve import Resolver
from deeploop.store import Entry, was_built

READ = ("metrics.json", "history.json", "samples.parquet", "alignment.json", "check_theory.json")
"""Outputs that reports read: only these are hashed, not gigabytes of weights."""


@dataclass(frozen=True)
class Finding:
    """What was found of one run."""

    folder: Path | None = None
    """Its outputs, when they hold."""
    problem: str = ""
    """What is wrong and what to do; empty for a run that is whole or still to come."""


def examine(resolver: Resolver, run: Run) -> Finding:
    """Return a run's outputs, or say why they cannot be shown."""
    path = resolver.root / run.manifest
    manifest = read_json(path)
    if path.exists() and not _is_manifest(manifest):
        return _broken(run, f"{run.manifest} is corrupt")
    if not resolver.is_current(run):
        return Finding()
    if manifest is None and was_built(resolver.root, run):
        return _broken(run, f"{run.manifest} is missing")
    if manifest is not None and manifest["outputs"] != resolver.outputs[run]:
        return _broken(run, f"{run.manifest} does not agree with the store")
    if resolver.is_absent(run):
        return Finding(problem=f"{run.id}: its bytes are not here: `deeploop pull`, or build again")
    entry = Entry(resolver.store, run.stage, resolver.keys[run])
    for name, output in resolver.outputs[run].items():
        if name in READ and sha256_file(entry.outputs_folder / name) != output["sha256"]:
            return _broken(run, f"{name} in the store has other bytes than its manifest says")
    return Finding(entry.outputs_folder)


def _broken(run: Run, what: str) -> Finding:
    remedy = "`deeploop verify --deep` sets damage aside, and a build mends it"
    return Finding(problem=f"{run.id}: {what}: {remedy}")


def _is_manifest(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("outputs"), Mapping)
        and {"stage", "run"} <= value.keys()
    )
