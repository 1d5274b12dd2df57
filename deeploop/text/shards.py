"""Token shards: llm.c's file format, written atomically and read as one memory-mapped stream.

A part is a header of 256 little-endian int32 (20240520, 1, number of tokens, zeros) and the
tokens as little-endian uint16. Parts of a split are `train-00000.bin`, `train-00001.bin`, ...;
they need not be equally long, and the reader joins them in the order of their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deeploop.errors import UserError

MAGIC = 20240520
FORMAT_VERSION = 1
HEADER_BYTES = 256 * 4
MAX_PART_TOKENS = 2**31 - 1
TOKEN = np.dtype("<u2")

Tokens = NDArray[np.uint16]


def part_name(split: str, index: int) -> str:
    """Return the file name of a split's part, e.g. `train-00003.bin`."""
    return f"{split}-{index:05d}.bin"


def write_part(path: Path, chunks: Iterable[Tokens]) -> int:
    """Write one part under a temporary name, flush it to disk, rename it; return its tokens.

    Args:
        path: final name; a file of that name is replaced.
        chunks: arrays of uint16 [any length], written one after the other.

    Raises:
        OSError: when it cannot be written; the temporary file is removed.
    """
    temporary = path.with_name(path.name + ".tmp")
    count = 0
    try:
        with temporary.open("wb") as stream:
            stream.write(header(0))
            for chunk in chunks:
                stream.write(chunk.astype(TOKEN, copy=False).tobytes())
                count += len(chunk)
            stream.seek(0)
            stream.write(header(count))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def header(tokens: int) -> bytes:
    """Return the header of a part of so many tokens.

    Raises:
        ValueError: the format cannot count so many.
    """
    if tokens > MAX_PART_TOKENS:
        raise ValueError(f"a part holds at most {MAX_PART_TOKENS} tokens, not {tokens}")
    words = np.zeros(256, dtype="<i4")
    words[:3] = MAGIC, FORMAT_VERSION, tokens
    return words.tobytes()


def open_part(path: Path) -> Tokens:
    """Memory-map one part; uint16 [tokens], read-only.

    Raises:
        UserError: not there, not this format, or not as long as its header says.
    """
    try:
        size = path.stat().st_size
        header = np.fromfile(path, dtype="<i4", count=256)
    except OSError as error:
        raise UserError(f"token shard {path}: {error.strerror}") from error
    if len(header) < 256 or header[0] != MAGIC or header[1] != FORMAT_VERSION:
        raise UserError(
            f"{path} is not a token shard: its header does not begin with "
            f"{MAGIC}, {FORMAT_VERSION} (llm.c's format)"
        )
    tokens = int(header[2])
    held = (size - HEADER_BYTES) / TOKEN.itemsize
    if tokens < 0 or held != tokens:
        raise UserError(
            f"token shard {path} is damaged: its header promises {tokens} tokens, "
            f"the file holds {held:.12g}; rebuild or fetch it again"
        )
    if tokens == 0:
        return np.empty(0, dtype=TOKEN)
    return np.memmap(path, dtype=TOKEN, mode="r", offset=HEADER_BYTES, shape=(tokens,))


class TokenShards:
    """The parts of one split as one read-only stream of uint16, without a copy in memory."""

    def __init__(self, folder: Path, split: str) -> None:
        """Map the parts `<split>-*.bin` of `folder`.

        Raises:
            UserError: there is no part, a part is not a shard or is damaged, or all are empty.
        """
        self.folder = folder
        self.split = split
        paths = sorted(folder.glob(f"{split}-*.bin"))
        if not paths:
            raise UserError(f"no token shards {split}-*.bin in {folder}")
        self._parts: Sequence[Tokens] = [open_part(path) for path in paths]
        self._ends = np.cumsum([len(part) for part in self._parts])
        if len(self) == 0:
            raise UserError(f"the token shards {split}-*.bin in {folder} hold no tokens")

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, start: int, count: int) -> Tokens:
        """Return tokens `start` to `start + count`; a view where one part holds them all.

        Raises:
            IndexError: when they are not all inside the stream.
        """
        if start < 0 or count < 0 or start + count > len(self):
            raise IndexError(f"tokens {start}..{start + count} of a stream of {len(self)}")
        pieces = []
        part = int(np.searchsorted(self._ends, start, side="right"))
        while count > 0:
            offset = start - (int(self._ends[part]) - len(self._parts[part]))
            piece = self._parts[part][offset : offset + count]
            pieces.append(piece)
            start, count, part = start + len(piece), count - len(piece), part + 1
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=TOKEN)

    def windows(self, starts: Sequence[int] | NDArray[np.int64], length: int) -> Tokens:
        """Gather windows; uint16 [len(starts), length], the only copy that is made.

        Raises:
            IndexError: when a window reaches outside the stream.
        """
        gathered = np.empty((len(starts), length), dtype=TOKEN)
        for row, start in enumerate(starts):
            gathered[row] = self.read(int(start), length)
        return gathered

    def counts(self, vocab_size: int) -> NDArray[np.int64]:
        """Count each token, part by part; int64 [vocab_size]: the unigram distribution.

        Raises:
            UserError: a token is not below `vocab_size`.
        """
        total = np.zeros(vocab_size, dtype=np.int64)
        for part in self._parts:
            for begin in range(0, len(part), 1 << 24):
                found = np.bincount(part[begin : begin + (1 << 24)], minlength=vocab_size)
                if len(found) > vocab_size:
                    raise UserError(
                        f"{self.folder} holds token {len(found) - 1}, but the vocabulary has "
                        f"{vocab_size}: tokenizer and model do not belong together"
                    )
                total += found
        return total
