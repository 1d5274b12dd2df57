"""The thirteen files of HRM's data set, made from a plan: hashed, and written where asked.

Row files are rendered block by block and never held in memory. Beside the sha256 of each file there
is a digest of each 65,536 rows, so that a training can render one block again and compare.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np
import xxhash

from deeploop.arc.grids import PAD
from deeploop.arc.identifiers import identifiers_json
from deeploop.arc.plan import SPLITS, ArcPlan, Split
from deeploop.arc.rows import SIDES, ArcRows
from deeploop.errors import BuildError

BLOCK_ROWS = 65_536
"""Rows that one block digest covers."""
CHUNK_ROWS = 4_096
"""Rows rendered at once; divides BLOCK_ROWS."""


@dataclass(frozen=True)
class Digests:
    """What verifies a data set."""

    files: Mapping[str, str]
    """sha256 of each of HRM's files, by path."""
    blocks: Mapping[str, list[str]]
    """Per `<split>/<side>`, the XXH3-128 of the tokens of each 65,536 rows."""


def npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    """Return what `numpy.save` writes before an array's bytes (format 1.0)."""
    header = io.BytesIO()
    about = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue()


def small_files(plan: ArcPlan) -> dict[str, bytes]:
    """Return the nine files that hold no rows, by path."""
    files = {"identifiers.json": identifiers_json(plan)}
    for split in SPLITS:
        rows = ArcRows(plan, split)
        files[f"{split}/dataset.json"] = json.dumps(dataset_metadata(rows)).encode()
        for name in ("puzzle_identifiers", "puzzle_indices", "group_indices"):
            array = getattr(rows, name)
            content = npy_header(array.shape, "<i4") + array.astype("<i4").tobytes()
            files[f"{split}/all__{name}.npy"] = content
    return files


def dataset_metadata(rows: ArcRows) -> dict[str, object]:
    """Return what HRM's `dataset.json` says of a split."""
    return {
        "pad_id": PAD,
        "ignore_label_id": PAD,
        "blank_identifier_id": 0,
        "vocab_size": rows.vocabulary,
        "seq_len": rows.tokens,
        "num_puzzle_identifiers": rows.identifiers,
        "total_groups": len(rows.group_indices) - 1,
        "mean_puzzle_examples": rows.count / max(len(rows.puzzle_identifiers), 1),
        "sets": ["all"],
    }


def chunks(
    rows: ArcRows, side: str, first: int = 0, last: int | None = None
) -> Iterator[np.ndarray]:
    """Yield tokens uint8 [<= 4096, tokens] of rows `first` to `last`; the buffer is used again."""
    last = rows.count if last is None else min(last, rows.count)
    buffer = np.empty((CHUNK_ROWS, rows.tokens), np.uint8)
    for start in range(first, last, CHUNK_ROWS):
        yield rows.side(side, np.arange(start, min(start + CHUNK_ROWS, last)), buffer)


def block_digest(rows: ArcRows, side: str, block: int) -> str:
    """Render one block of 65,536 rows and return its digest."""
    digest = xxhash.xxh3_128()
    for tokens in chunks(rows, side, block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS):
        digest.update(tokens.data)
    return digest.hexdigest()


def verify_block(rows: ArcRows, blocks: Mapping[str, list[str]], block: int) -> None:
    """Render one block of inputs and labels again and compare; what a training does first.

    Raises:
        BuildError: when a digest differs from that of the build.
    """
    for side in SIDES:
        name = f"{rows.split}/{side}"
        found, expected = block_digest(rows, side, block), blocks[name][block]
        if found != expected:
            raise BuildError(
                f"{name}, rows from {block * BLOCK_ROWS}: digest {found}, expected {expected}"
            )


def _drop_from_memory(file: FileIO) -> None:
    """Bring what was written to disk, and free the memory that the system keeps it in.

    Gigabytes would push out what others have there, and new memory costs the system more time than
    writing does: where it is virtual, several times more.
    """
    if sys.platform == "linux":
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _stream_rows(rows: ArcRows, side: str, path: Path | None) -> tuple[str, list[str]]:
    """Render one row file, to `path` where given; return its sha256 and its blocks' digests."""
    whole, block, blocks = hashlib.sha256(), xxhash.xxh3_128(), []
    header = npy_header((rows.count, rows.tokens), "|u1")
    whole.update(header)
    with ExitStack() as stack:
        file = stack.enter_context(path.open("wb", buffering=0)) if path else None
        if file:
            file.write(header)
        done = 0
        for tokens in chunks(rows, side):
            whole.update(tokens.data)
            block.update(tokens.data)
            if file:
                file.write(tokens.data)
            done += len(tokens)
            if done % BLOCK_ROWS == 0 or done == rows.count:
                blocks.append(block.hexdigest())
                block.reset()
                if file:
                    _drop_from_memory(file)
    return whole.hexdigest(), blocks


def render_files(plan: ArcPlan, folder: Path | None = None, workers: int = 1) -> Digests:
    """Render every row and hash all thirteen files; write them where a `folder` is given.

    Files appear under their names once all are complete.

    Raises:
        BuildError: when the folder cannot be written.
    """
    small = small_files(plan)
    streams = [(split, side) for split in SPLITS for side in SIDES]
    names = [*small, *(f"{split}/all__{side}.npy" for split, side in streams)]
    paths = {name: folder / f"{name}.partial" if folder else None for name in names}
    try:
        digests = _render_files(plan, small, streams, paths, workers)
        for path in filter(None, paths.values()):
            path.replace(path.with_suffix(""))
    except OSError as error:
        for path in filter(None, paths.values()):
            if path.is_file():
                path.unlink()
        raise BuildError(f"{folder}: cannot write the data set: {error.strerror}") from error
    return digests


def _render_files(
    plan: ArcPlan,
    small: Mapping[str, bytes],
    streams: Sequence[tuple[Split, str]],
    paths: Mapping[str, Path | None],
    workers: int,
) -> Digests:
    """Hash all files and write those that have a path."""
    files: dict[str, str] = {}
    blocks: dict[str, list[str]] = {}
    for name, content in small.items():
        files[name] = hashlib.sha256(content).hexdigest()
        if path := paths[name]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    rows = {split: ArcRows(plan, split) for split in SPLITS}
    with ThreadPoolExecutor(workers) as pool:
        results = pool.map(
            lambda one: _stream_rows(rows[one[0]], one[1], paths[f"{one[0]}/all__{one[1]}.npy"]),
            streams,
        )
        for (split, side), (sha256, digests) in zip(streams, results, strict=True):
            files[f"{split}/all__{side}.npy"] = sha256
            blocks[f"{split}/{side}"] = digests
    return Digests(dict(sorted(files.items())), blocks)


def check_digests(found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Compare the files' digests with the expected ones.

    Raises:
        BuildError: with both digests of each file that differs.
    """
    wrong = [
        f"{name}: sha256 {found.get(name, 'missing')}, expected {digest}"
        for name, digest in expected.items()
        if found.get(name) != digest
    ]
    if wrong:
        raise BuildError(
            "the ARC data set differs from what params.yaml expects: " + "; ".join(wrong)
        )
