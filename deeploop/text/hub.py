"""Files of a data set on the Hugging Face hub: listed at one commit, downloaded, verified.

A download that was interrupted goes on at the byte where it stopped, also in another process:
that is why files come over plain HTTP (`hf_hub_download` starts a file anew).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.fileio import sha256_file


@dataclass(frozen=True)
class HubFile:
    """One file of a data set at one commit."""

    repo: str
    revision: str
    path: str
    """Inside the repository."""
    size: int
    """Bytes."""
    sha256: str | None
    """Of a large file, as the hub states it."""
    blob: str
    """Of a small file: git's SHA-1 over its size and content."""

    @property
    def where(self) -> str:
        """The file's name in messages."""
        return f"{self.repo}@{self.revision[:12]}/{self.path}"


def list_hub_files(repo: str, revision: str, patterns: Sequence[str]) -> list[HubFile]:
    """Return the files that match any pattern, in the order of their paths.

    Args:
        repo: data set, e.g. `HuggingFaceFW/fineweb-edu`.
        revision: commit.
        patterns: globs as `huggingface_hub` reads them: `*` matches `/` too.

    Raises:
        UserError: there is no such data set, commit or file, or the hub wants a login.
        BuildError: the hub cannot be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils import filter_repo_objects

    found: dict[str, HubFile] = {}
    api = HfApi(endpoint=_endpoint())
    for pattern in patterns:
        with _told(repo, revision):
            tree = api.list_repo_tree(
                repo, _folder(pattern), recursive=True, revision=revision, repo_type="dataset"
            )
            files = [entry for entry in tree if isinstance(entry, RepoFile)]
        matched = list(
            filter_repo_objects(files, allow_patterns=pattern, key=lambda file: file.path)
        )
        if not matched:
            raise UserError(f"{repo}@{revision[:12]}: no file matches '{pattern}'")
        for file in matched:
            sha256 = file.lfs.sha256 if file.lfs else None
            found[file.path] = HubFile(repo, revision, file.path, file.size, sha256, file.blob_id)
    return [found[path] for path in sorted(found)]


def download(file: HubFile, target: Path, stop: Callable[[], bool]) -> str:
    """Download a file, going on where an earlier attempt stopped; return its sha256.

    Args:
        file: what to download.
        target: where it goes; until it is whole it lies beside it with the suffix `.partial`.
        stop: polled at every few megabytes.

    Raises:
        UserError: the file is not there, or the hub wants a login.
        BuildError: the hub cannot be reached, the disk is full, or what came is damaged.
        Interrupted: `stop` said so; the part that came is kept.
    """
    partial = target.with_name(f"{target.name}.partial")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _told(file.repo, file.revision), partial.open("ab") as stream:
            _download_rest(file, stream, stop)
        partial.replace(target)
    return _verified(file, target)


def _download_rest(file: HubFile, stream: BinaryIO, stop: Callable[[], bool]) -> None:
    """Append what a file lacks."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    address = hf_hub_url(
        file.repo, file.path, repo_type="dataset", revision=file.revision, endpoint=_endpoint()
    )
    if stream.tell() > file.size:  # of something else
        stream.truncate(0)
        stream.seek(0)
    http_get(
        address,
        stream,
        resume_size=stream.tell(),
        headers=build_hf_headers(),
        expected_size=file.size,
        displayed_filename=file.path,
        tqdm_class=_progress(stop),
    )
    stream.flush()
    os.fsync(stream.fileno())


def _verified(file: HubFile, path: Path) -> str:
    """Return a file's sha256; remove it and complain if it is not what the hub lists."""
    sha256 = sha256_file(path)
    if file.sha256 is not None:
        intact = sha256 == file.sha256
    else:
        content = path.read_bytes()
        header = f"blob {len(content)}\0".encode()
        intact = hashlib.sha1(header + content).hexdigest() == file.blob
    if not intact:
        path.unlink()
        raise BuildError(
            f"{file.where} came damaged: its hash is not the hub's; the same command fetches it "
            "again"
        )
    return sha256


def _progress(stop: Callable[[], bool]) -> Any:
    """Return a progress bar that ends the download when `stop` says so."""
    from huggingface_hub.utils import tqdm

    class Progress(tqdm):
        def update(self, n: float | None = 1) -> bool | None:
            if stop():
                raise Interrupted("the download was stopped; what has come is kept")
            shown: bool | None = super().update(n)
            return shown

    return Progress


def _endpoint() -> str | None:
    """Return the hub's address as huggingface_hub's own variable gives it."""
    return os.environ.get("HF_ENDPOINT") or None


def _folder(pattern: str) -> str | None:
    """Return the folder above a glob's first wildcard: what must be listed."""
    fixed = pattern
    for wildcard in "*?[":
        fixed = fixed.partition(wildcard)[0]
    return fixed.rpartition("/")[0] or None


@contextmanager
def _told(repo: str, revision: str) -> Iterator[None]:
    """Turn the hub's errors into one line.

    Raises:
        UserError: for what the user must change.
        BuildError: for what may pass.
    """
    from httpx2 import HTTPError
    from huggingface_hub import errors

    at = f"{repo}@{revision[:12]}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise UserError(f"{repo} wants a login: `hf auth login`, or set HF_TOKEN") from error
    except errors.RepositoryNotFoundError as error:
        raise UserError(f"the hub has no data set {repo} (or it is private: HF_TOKEN)") from error
    except errors.RevisionNotFoundError as error:
        raise UserError(
            f"{repo} has no revision {revision}: take a commit from its history on the hub"
        ) from error
    except errors.EntryNotFoundError as error:
        raise UserError(f"{at} has no such file or folder: {_one_line(error)}") from error
    except (errors.OfflineModeIsEnabled, HTTPError) as error:
        raise BuildError(
            f"cannot reach the hub for {at} ({_one_line(error)}); where there is network, the "
            "same command goes on from what has come"
        ) from error
    except OSError as error:
        raise BuildError(
            f"cannot fetch {at}: {error.strerror or _one_line(error)}; the same command goes on "
            "from what has come"
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
