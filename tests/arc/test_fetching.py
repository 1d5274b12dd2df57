from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deeploop.arc.dataset import read_selection, select
from deeploop.arc.fetching import bundle, content_digest, fetch, read_archive
from deeploop.arc.repositories import REPOSITORIES
from deeploop.arc.sources import read_bundle
from deeploop.arc.validation import Checker
from deeploop.errors import BuildError, UserError
from tests.arc.conftest import SHARED
from tests.arc.made_up import Json

REPOSITORY = replace(REPOSITORIES["concept"], path="owner/name", commit="c0ffee", folder="data")


def pack(path: Path, files: dict[str, bytes], top: str = "name-c0ffee/") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(top + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def files(values: dict[str, dict[str, Json]]) -> dict[str, bytes]:
    return {
        f"{folder}/{file}": json.dumps(value).encode()
        for folder, puzzles in values.items()
        for file, value in puzzles.items()
    }


def test_the_content_digest_is_what_the_shell_prints(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    command = "find . -name '*.json' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    printed = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, check=True)
    assert content_digest(files) == printed.stdout.decode().split()[0]


def test_a_repository_is_fetched_checked_and_read_as_its_folder_is(
    files: dict[str, bytes],
    values: dict[str, dict[str, Json]],
    tmp_path: Path,
    write: Callable[..., Path],
) -> None:
    repository = replace(REPOSITORY, digest=content_digest(files))
    extra = {"README.md": b"text", "data/list.txt": b"no puzzle"}
    pack(
        tmp_path / "mirror/owner/name/tar.gz/c0ffee",
        extra | {f"data/{name}": content for name, content in files.items()},
    )
    for out in ("one", "two"):
        (tmp_path / out).mkdir()
        fetch(repository, (tmp_path / "mirror").as_uri(), tmp_path, tmp_path / out)
    bundled = tmp_path / "one" / "puzzles.json"
    assert bundled.read_bytes() == (tmp_path / "two" / "puzzles.json").read_bytes()
    checker = Checker()
    fetched = select([read_bundle(bundled, checker)], 30, None, "sorted")
    checker.finish()
    folder = read_selection([str(write(values))], 30, "sorted")
    assert [
        [(p.name, p.digest(), p.test_first, p.file) for p in one.puzzles] for one in fetched.sets
    ] == [[(p.name, p.digest(), p.test_first, p.file) for p in one.puzzles] for one in folder.sets]


def test_other_puzzles_than_expected_are_refused_with_both_digests(files: dict[str, bytes]) -> None:
    with pytest.raises(BuildError, match=f"digest {content_digest(files)}, expected {'0' * 64}"):
        bundle(files, "0" * 64, "somewhere")


def test_what_cannot_be_fetched_is_told(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"cannot fetch file://.*give the puzzles as a folder"):
        fetch(REPOSITORY, (tmp_path / "nowhere").as_uri(), tmp_path, tmp_path)


@pytest.mark.parametrize("name", ["../../x.json", "/etc/x.json"])
def test_an_archive_whose_paths_climb_out_is_refused(tmp_path: Path, name: str) -> None:
    archive = pack(tmp_path / "a.tar.gz", {name: b"{}"}, top="")
    with pytest.raises(UserError, match="a path that climbs out of the archive"):
        read_archive(archive, "data")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"<html>not found</html>")
    with pytest.raises(UserError, match=r"not a readable \.tar\.gz archive"):
        read_archive(tmp_path / "a.tar.gz", "data")


@pytest.mark.parametrize(
    ("key", "archive", "count"),
    [("arc1", "ARC-AGI-1", 800), ("arc2", "ARC-AGI-2", 1120), ("concept", "ConceptARC", 160)],
)
def test_the_pinned_digests_are_those_of_the_real_archives(
    key: str, archive: str, count: int
) -> None:
    path = SHARED / f"{archive}.tar.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    found = read_archive(path, REPOSITORIES[key].folder)
    assert len(found) == count
    assert content_digest(found) == REPOSITORIES[key].digest
    folders = json.loads(bundle(found, REPOSITORIES[key].digest, archive))
    assert sum(map(len, folders.values())) == count
