"""Fetches a repository of puzzles, or takes its archive from anywhere.

An archive is taken only when the digest of its puzzle files is the known one. Nothing is unpacked
to disk.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from deeploop.arc.repositories import Repository
from deeploop.arc.validation import parse_json
from deeploop.errors import BuildError, UserError

BUNDLE_FILE = "puzzles.json"
TIMEOUT_SECONDS = 60


def content_digest(files: Mapping[str, bytes]) -> str:
    """Return what `find . -name '*.json' | LC_ALL=C sort | xargs sha256sum | sha256sum` prints.

    `files` holds each file's bytes by its path below the folder.
    """
    lines = (f"{hashlib.sha256(files[path]).hexdigest()}  ./{path}\n" for path in sorted(files))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def download(url: str, path: Path) -> None:
    """Fetch `url` to `path`.

    Raises:
        BuildError: when the server cannot be reached or has no such file.
    """
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            path.write_bytes(response.read())
    except (urllib.error.URLError, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        raise BuildError(
            f"cannot fetch {url}: {reason}; without network, give the puzzles as a folder instead"
        ) from error


def read_archive(path: Path, folder: str) -> dict[str, bytes]:
    """Return the JSON files below `folder` in a `.tar.gz`, by their path below it.

    Raises:
        UserError: when it is no such archive, or a path climbs out of it.
    """
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                if member.name.startswith("/") or ".." in parts:
                    raise UserError(f"{path}: {member.name}: a path that climbs out of the archive")
                content = archive.extractfile(member) if member.isfile() else None
                if content and folder in parts[:2] and member.name.endswith(".json"):
                    below = parts[parts.index(folder) + 1 :]
                    files["/".join(below)] = content.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UserError(f"{path}: not a readable .tar.gz archive: {error}") from error
    return files


def bundle(files: Mapping[str, bytes], expected: str, origin: str) -> bytes:
    """Return one JSON file of all puzzles, folder -> file -> content, key order kept.

    Raises:
        BuildError: with both digests, when the files are not the expected ones.
    """
    found = content_digest(files)
    if found != expected:
        raise BuildError(f"{origin}: the puzzle files have digest {found}, expected {expected}")
    folders: dict[str, dict[str, object]] = {}
    for path in sorted(files):
        name, _, file = path.rpartition("/")
        folders.setdefault(name, {})[file] = parse_json(files[path])
    return json.dumps(folders, separators=(",", ":")).encode() + b"\n"


def fetch(repository: Repository, archives: str, work: Path, folder: Path) -> None:
    """Download a repository, check it and write its bundle into `folder`.

    Raises:
        BuildError: when it cannot be reached, or its puzzles are not the expected ones.
        UserError: when what came is no archive.
    """
    url = repository.url(archives)
    archive = work / "archive.tar.gz"
    download(url, archive)
    files = read_archive(archive, repository.folder)
    (folder / BUNDLE_FILE).write_bytes(bundle(files, repository.digest, url))
