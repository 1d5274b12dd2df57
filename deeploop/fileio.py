"""Writing files so that no reader ever sees half of one, and hashing them."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20


def dump_json(value: Any) -> str:
    """Return the one canonical text of a JSON value: sorted keys, one-space indent, newline."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """Return the value in a JSON file, or None when the file is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def sha256_text(text: str) -> str:
    """Return the hex SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the hex SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def fsync(path: Path) -> None:
    """Flush a file or a folder's list of names to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, text: str) -> None:
    """Write a text file: a reader, or a crash, sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_if_changed(path: Path, text: str) -> bool:
    """Write a text file unless it already holds `text`; say whether it was written.

    Both engines look at times or bytes of what they depend on: a file that did not change must
    not be touched.
    """
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        pass
    write_atomically(path, text)
    return True


class DigestCache:
    """SHA-256 of the user's files, remembered by path, size, time and inode.

    Planning hashes every input text at each call; a corpus of gigabytes must be read once only.
    A file changed within the last second is not remembered: another change within the clock's
    grain would not show.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Any] = read_json(path) or {}
        self._dirty = False

    def sha256(self, path: Path) -> str:
        """Return the digest of a file, from memory when its stat is unchanged."""
        stat = path.stat()
        mark = [stat.st_size, stat.st_mtime_ns, stat.st_ino]
        entry = self._known.get(str(path))
        if entry and entry["mark"] == mark:
            return str(entry["sha256"])
        digest = sha256_file(path)
        if time.time_ns() - stat.st_mtime_ns > 1_000_000_000:
            self._known[str(path)] = {"mark": mark, "sha256": digest}
            self._dirty = True
        return digest

    def save(self) -> None:
        """Keep what was learned; a folder that cannot be written only costs the next hashing."""
        if self._dirty:
            try:
                write_if_changed(self._path, dump_json(self._known))
            except OSError:
                return
            self._dirty = False
