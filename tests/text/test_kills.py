"""On 50 MB of English in FineWeb-Edu's schema: the same bytes, whatever is killed and when."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.english import write_english
from deeploop.fileio import sha256_file

REPOSITORY = Path(__file__).parents[2]
ONE_FILE_A_UNIT = (
    "import sys; from deeploop import cli; from deeploop.text import corpora;"
    "corpora.UNIT_BYTES = 1; sys.exit(cli.main(sys.argv[1:]))"
)
"""Real input files are large enough for that; these would be taken together."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("english")
    write_english(folder, megabytes=50, files=8, original=3)
    return folder


def start(english: Path, out: Path, workers: int) -> subprocess.Popen[bytes]:
    command = ["data", "build", "--source", str(english / "*.parquet"), "--id", "id"]
    command += ["--out", str(out), "--workers", str(workers), "--validation-tokens", "100000"]
    return subprocess.Popen(
        [sys.executable, "-c", ONE_FILE_A_UNIT, *command],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def digests(out: Path) -> dict[str, str]:
    assert not (out / ".build").exists()
    return {path.name: sha256_file(path) for path in sorted(out.iterdir())}


@pytest.fixture(scope="module")
def undisturbed(english: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert start(english, out, workers=1).wait() == 0
    return digests(out)


@pytest.mark.parametrize("workers", [2, 4])
def test_workers(english: Path, undisturbed: dict[str, str], tmp_path: Path, workers: int) -> None:
    assert start(english, tmp_path / "out", workers).wait() == 0
    assert digests(tmp_path / "out") == undisturbed


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_kills(english: Path, undisturbed: dict[str, str], tmp_path: Path, workers: int) -> None:
    """Kill the parent, or all at once, again and again until a build outruns the killer."""
    generator = random.Random(workers)
    killed = 0
    patience = 4.0
    while True:
        process = start(english, tmp_path / "out", workers)
        try:
            assert process.wait(timeout=generator.uniform(0.2, patience)) == 0
            break
        except subprocess.TimeoutExpired:
            if generator.random() < 0.5:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
            patience *= 1.1
            time.sleep(0.1)
    assert killed >= 2
    assert digests(tmp_path / "out") == undisturbed
