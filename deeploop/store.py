"""The content-addressed store, and the small files by which engines see what it holds.

    store/<stage>/<key>/outputs/...        the bytes
                       /manifest.json      name -> sha256, bytes; written last
                       /spec.json, provenance.json
    store/<stage>/<key>.partial/           a run at work or interrupted
    results/<suite>/<stage>/<run>/manifest.json    what engines depend on
                                  /entry.json, lineage.json, provenance.json

The key is over the stage, its specification and the digests of the upstream outputs; never over
upstream keys: equal bytes must look equal.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeploop.fileio import (
    dump_json,
    fsync,
    read_json,
    sha256_file,
    sha256_text,
    write_atomically,
    write_if_changed,
)
from deeploop.plan import Run

Outputs = Mapping[str, Mapping[str, Any]]
"""File name -> {"sha256", "bytes"}."""

KEY_LENGTH = 32


def key_of(spec: Mapping[str, Any], upstream: Sequence[Outputs]) -> str:
    """Return the identity of a run's result: its specification and the bytes it starts from."""
    return sha256_text(dump_json([spec, upstream]))[:KEY_LENGTH]


@dataclass(frozen=True)
class Entry:
    """A run's result in the store, finished or not."""

    root: Path
    stage: str
    key: str

    @property
    def folder(self) -> Path:
        """The finished entry."""
        return self.root / self.stage / self.key

    @property
    def outputs_folder(self) -> Path:
        """The finished bytes; read-only by agreement."""
        return self.folder / "outputs"

    @property
    def partial(self) -> Path:
        """Where the run works; it survives failure, and holds what a resumed job needs."""
        return self.root / self.stage / f"{self.key}.partial"

    @property
    def lock(self) -> Path:
        """The file whose holder alone may work on the run."""
        return self.root / self.stage / f"{self.key}.lock"

    def outputs(self) -> Outputs | None:
        """Return what the entry holds, or None when a file is gone or has another size."""
        manifest = read_json(self.folder / "manifest.json")
        try:
            outputs: Outputs = manifest["outputs"]
            for name, output in outputs.items():
                if (self.outputs_folder / name).stat().st_size != output["bytes"]:
                    return None
        except (TypeError, KeyError, OSError):
            return None
        return outputs

    def damage(self) -> list[str]:
        """Return the faults of the entry's bytes, each file read and hashed whole."""
        manifest = read_json(self.folder / "manifest.json")
        if not isinstance(manifest, dict) or "outputs" not in manifest:
            return ["its manifest is missing or unreadable"]
        faults = []
        for name, output in manifest["outputs"].items():
            path = self.outputs_folder / name
            if not path.is_file():
                faults.append(f"{name} is missing")
            elif path.stat().st_size != output["bytes"]:
                faults.append(f"{name} has {path.stat().st_size} bytes, not {output['bytes']}")
            elif sha256_file(path) != output["sha256"]:
                faults.append(f"{name} has other bytes than its sha256 says")
        return faults

    def set_aside(self) -> Path:
        """Move a damaged entry out of the way, keeping its bytes; return where to."""
        number = 0
        while (aside := self.folder.with_name(f"{self.key}.damaged-{number}")).exists():
            number += 1
        self.folder.rename(aside)
        return aside


def measure(folder: Path) -> dict[str, dict[str, Any]]:
    """Return sha256 and size of every file below a folder, by its relative name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {
            "sha256": sha256_file(path),
            "bytes": path.stat().st_size,
        }
        for path in files
    }


def finish(entry: Entry, run: Run, spec_text: str, provenance: Mapping[str, Any]) -> Outputs:
    """Turn a partial folder into the entry: flush, then one atomic rename.

    A rename onto an existing entry verifies and uses that one: two jobs that computed the same
    key wrote the same bytes, or one of them is damaged.
    """
    outputs = measure(entry.partial / "outputs")
    shutil.rmtree(entry.partial / "work", ignore_errors=True)
    for name in ("job.json", "attempts.json"):
        (entry.partial / name).unlink(missing_ok=True)
    write_atomically(entry.partial / "spec.json", spec_text)
    write_atomically(entry.partial / "provenance.json", dump_json(provenance))
    write_atomically(
        entry.partial / "manifest.json",
        dump_json({"stage": run.stage, "run": run.name, "outputs": outputs}),
    )
    for path in sorted(entry.partial.rglob("*"), reverse=True):
        fsync(path)
    if entry.folder.exists():
        if not entry.damage():
            shutil.rmtree(entry.partial)
            return entry.outputs() or outputs
        entry.set_aside()
    entry.partial.rename(entry.folder)
    fsync(entry.folder.parent)
    return outputs


def publish(
    root: Path, run: Run, entry: Entry, outputs: Outputs, upstream: Sequence[Outputs]
) -> None:
    """Show a finished run to engines and people: manifest last, each file only if it differs."""
    folder = root / run.folder
    manifest = manifest_text(run, outputs)
    provenance = entry.folder / "provenance.json"
    if provenance.is_file():
        write_if_changed(folder / "provenance.json", provenance.read_text(encoding="utf-8"))
    lineage = {
        "spec": run.spec,
        "inputs": {up.id: out for up, out in zip(run.inputs, upstream, strict=True)},
        "outputs": outputs,
    }
    write_if_changed(folder / "lineage.json", dump_json(lineage))
    write_if_changed(
        folder / "entry.json",
        dump_json(
            {
                "key": entry.key,
                "spec_sha256": sha256_text(run.spec_text),
                "store": os.path.relpath(entry.folder, root),
                "manifest_sha256": sha256_text(manifest),
            }
        ),
    )
    if run.declaration.exports and entry.folder.is_dir():
        _export(root, run, entry, outputs)
    write_if_changed(folder / "manifest.json", manifest)


def manifest_text(run: Run, outputs: Outputs) -> str:
    """Return the manifest that engines compare: stage, run, and digests of the bytes only."""
    return dump_json({"stage": run.stage, "run": run.name, "outputs": outputs})


def published(root: Path, run: Run) -> tuple[str, Outputs] | None:
    """Return (key, outputs) that a run was last shown with, or None unless its files agree.

    The manifest itself is not asked: engines delete it before a job and on failure, and what it
    said stands beside it.
    """
    entry = read_json(root / run.folder / "entry.json")
    lineage = read_json(root / run.folder / "lineage.json")
    try:
        outputs = lineage["outputs"]
        if entry["manifest_sha256"] != sha256_text(manifest_text(run, outputs)):
            return None
        return entry["key"], outputs
    except (TypeError, KeyError):
        return None


def restore_manifest(root: Path, run: Run, outputs: Outputs) -> None:
    """Write the manifest of a run whose bytes need not be here."""
    write_if_changed(root / run.manifest, manifest_text(run, outputs))


def withdraw(root: Path, run: Run) -> None:
    """Take back what was shown of a run, so that it is computed and not believed."""
    (root / run.manifest).unlink(missing_ok=True)
    (root / run.folder / "entry.json").unlink(missing_ok=True)


def was_built(root: Path, run: Run) -> bool:
    """Say whether the run has been built before; this trace outlives engines and `withdraw`."""
    return (root / run.folder / "lineage.json").is_file()


def _export(root: Path, run: Run, entry: Entry, outputs: Outputs) -> None:
    """Copy outputs to where people look; a mark says which bytes lie there."""
    target = root / run.declaration.exports.format(suite=run.suite)
    mark = target / ".exported.json"
    text = dump_json(outputs)
    whole = all((target / name).is_file() for name in outputs)
    if whole and read_json(mark) == outputs:
        return
    old = read_json(mark) or {}
    for name in old:
        if name not in outputs:
            (target / name).unlink(missing_ok=True)
    for name in outputs:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(entry.outputs_folder / name, target / name)
    write_atomically(mark, text)
