"""Checkpoints: safetensors and JSON, complete or not there, and verified before they are used.

A checkpoint is a folder `step-00001200/` with `tensors.safetensors`, `meta.json` and `SHA256SUMS`
(which `sha256sum -c` reads). It is written under a temporary name, flushed and renamed; the last
two are kept, so that a damaged one costs a few minutes and not the run. Nothing is ever unpickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from deeploop.errors import BuildError

KEPT = 2
TENSORS, META, SUMS = "tensors.safetensors", "meta.json", "SHA256SUMS"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A training's whole state after `step` updates."""

    step: int
    identity: Mapping[str, Any]
    """What the run is; see `deeploop.training.task.Task.identity`."""
    tensors: Mapping[str, Tensor]
    """Contiguous, on the CPU when loaded."""
    meta: Mapping[str, Any]
    """JSON beside them."""


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint into `folder`, drop all but the last two, return its path.

    Raises:
        BuildError: when the disk is full or the folder cannot be written; older ones stay.
    """
    final = folder / f"step-{checkpoint.step:08d}"
    partial = folder / f".partial-{checkpoint.step:08d}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write(partial, checkpoint)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        _sync(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise BuildError(_cannot_save(folder, error)) from error
    for old in _saved(folder)[KEPT:]:
        shutil.rmtree(old)
    return final


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file.

    Raises:
        OSError: when the disk is full or the file cannot be written; safetensors has an error
            type of its own, which tells the system's number only in words.
    """
    try:
        save_file(dict(tensors), path)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(path)) from error


def load_latest(folder: Path, identity: Mapping[str, Any]) -> Checkpoint | None:
    """Return the newest checkpoint that verifies, or None when none was ever written.

    A damaged one is passed over with a warning.

    Raises:
        BuildError: when all are damaged, or the one found is of another configuration.
    """
    saved = _saved(folder)
    for path in saved:
        problem = damage(path)
        if problem is None:
            found = _read(path)
            _refuse_other(path, found.identity, identity)
            return found
        log.warning("checkpoint %s is damaged (%s): falling back to the one before", path, problem)
    if saved:
        raise BuildError(
            f"no checkpoint in {folder} verifies ({len(saved)} damaged): "
            "delete the folder to train from the start"
        )
    return None


def damage(path: Path) -> str | None:
    """Return what is wrong with a checkpoint folder, or None when all its bytes are as written."""
    try:
        lines = (path / SUMS).read_text().splitlines()
        sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
        if sums.keys() != {TENSORS, META}:
            return f"{SUMS} is incomplete"
        wrong = [name for name, digest in sums.items() if sha256(path / name) != digest]
    except (OSError, ValueError) as error:
        return str(error)
    return f"{', '.join(wrong)} changed since it was written" if wrong else None


def sha256(path: Path) -> str:
    """Return the hexadecimal digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def differing(ours: Mapping[str, Any], theirs: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield `key: their value, not our value` for every leaf in which two JSON trees differ."""
    for key in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            yield from differing(mine, other, f"{at}{key}.")
        elif mine != other:
            yield f"{at}{key}: {other}, not {mine}"


def _refuse_other(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    differences = list(differing(ours, theirs))
    if differences:
        raise BuildError(
            f"checkpoint {path} is of another configuration ({'; '.join(differences)}): "
            "delete its folder, or run the configuration it belongs to"
        )


def _write(partial: Path, checkpoint: Checkpoint) -> None:
    content = {
        "step": checkpoint.step,
        "identity": dict(checkpoint.identity),
        "meta": dict(checkpoint.meta),
    }
    write_tensors(partial / TENSORS, checkpoint.tensors)
    (partial / META).write_text(json.dumps(content, sort_keys=True))
    sums = [f"{sha256(partial / name)}  {name}\n" for name in (META, TENSORS)]
    (partial / SUMS).write_text("".join(sums))
    for name in (TENSORS, META, SUMS):
        _sync(partial / name)
    _sync(partial)


def _read(path: Path) -> Checkpoint:
    content = json.loads((path / META).read_text())
    tensors = load_file(path / TENSORS)
    return Checkpoint(content["step"], content["identity"], tensors, content["meta"])


def _saved(folder: Path) -> list[Path]:
    """Return finished checkpoints, newest first."""
    return sorted(folder.glob("step-*"), reverse=True)


def _sync(path: Path) -> None:
    """Flush a file's bytes, or a folder's names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cannot_save(folder: Path, error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = "the disk is full" if full else (error.strerror or str(error))
    kept = ", ".join(path.name for path in _saved(folder)) or "none"
    return (
        f"cannot save a checkpoint in {folder}: {reason}; still there: {kept}. Free space and rerun"
    )
