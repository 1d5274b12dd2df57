"""Text to token shards: ours, with both back ends, beside a `datasets.map` script.

    python -m bench.tokenize                 # speed: MB of text per CPU-second
    python -m bench.tokenize --memory        # peak memory at 1 and 20 times the input

Every measurement is a process of its own with its children, in turn; CPU time and peak memory are
what the kernel says of them. All must write the same tokens.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pyarrow.parquet import ParquetFile

from bench.english import write_english
from deeploop.text.shards import HEADER_BYTES

GOALS = {"tiktoken": 1.9, "fast": 8.0}
"""How many times the MB per CPU-second of `datasets.map`."""
MEMORY_GOAL = 500
"""MB a process."""
SIDES = ("datasets.map", "tiktoken", "fast")

METER = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=sys.stderr)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(status)
"""
"""A small process between: the peak of a child begins at what its parent held."""


@dataclass(frozen=True)
class Measured:
    """What one process and its children took."""

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    tokens: int
    digest: str
    """Of the tokens."""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100, help="of text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1, help="processes of either side")
    parser.add_argument("--memory", action="store_true", help="measure memory instead of speed")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir(), "deeploop-bench-text")
    )
    options = parser.parse_args()
    if options.memory:
        memory(options)
    else:
        speed(options)


def speed(options: argparse.Namespace) -> None:
    """Print MB per CPU-second of each side, and the ratios."""
    files = write_english(options.folder, options.megabytes, files=4)
    size = text_megabytes(files)
    found: dict[str, list[Measured]] = {side: [] for side in SIDES}
    for _ in range(options.rounds):
        for side in SIDES:
            found[side].append(measure(side, files, options.workers))
    if len(digests := {run.digest for runs in found.values() for run in runs}) != 1:
        sys.exit(f"the sides wrote different tokens: {digests}")
    tokens = found["fast"][0].tokens
    print(f"{size:.1f} MB of text, {tokens / 1e6:.2f} M tokens, the same bytes from all sides")
    print("side          MB/CPU-s  Mtok/CPU-s  wall MB/s  peak MB  ratio (range)  goal")
    plain = found["datasets.map"]
    for side, runs in found.items():
        cpu = statistics.median(run.cpu_seconds for run in runs)
        ratios = [p.cpu_seconds / run.cpu_seconds for p, run in zip(plain, runs, strict=True)]
        goal = f"{GOALS[side]:.1f}" if side in GOALS else ""
        print(
            f"{side:12}  {size / cpu:8.2f}  {tokens / cpu / 1e6:10.3f}"
            f"  {size / statistics.median(run.wall_seconds for run in runs):9.1f}"
            f"  {max(run.peak_mb for run in runs):7.0f}"
            f"  {statistics.median(ratios):5.2f} ({min(ratios):.2f}..{max(ratios):.2f})  {goal}"
        )


def memory(options: argparse.Namespace) -> None:
    """Print the peak memory of each back end at 1 and 20 times the input."""
    print(f"back end   text MB  peak MB  (goal: at most {MEMORY_GOAL}, and flat)")
    for times in (1, 20):
        files = write_english(options.folder, times * options.megabytes, files=2)
        for backend in GOALS:
            peak = measure(backend, files, options.workers).peak_mb
            print(f"{backend:9}  {text_megabytes(files):7.0f}  {peak:7.0f}", flush=True)


def measure(side: str, files: Sequence[Path], workers: int) -> Measured:
    """Run one side in an empty folder."""
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=files[0].parent))
    if side == "datasets.map":
        paths = map(str, files)
        command = ["-m", "bench.datasets_map", str(folder / "all.bin"), str(workers), *paths]
    else:
        names = str(files[0]).replace("mb-000_", "mb-*_")
        command = ["-m", "deeploop", "data", "build", "--source", names, "--id", "id"]
        command += ["--tokenizer", "gpt2", "--out", str(folder / "ours")]
        command += ["--workers", str(workers), "--backend", side]
    try:
        begun = time.monotonic()
        environment = {**os.environ, "HF_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        with (folder / "log").open("w") as log:
            done = subprocess.run(
                [sys.executable, "-c", METER, sys.executable, *command],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                check=False,
            )
        if done.returncode:
            sys.exit(f"{side} failed:\n{(folder / 'log').read_text()}")
        wall = time.monotonic() - begun
        cpu, peak = map(float, done.stdout.split())
        return Measured(cpu, wall, peak / 1024, *tokens_of(folder))
    finally:
        shutil.rmtree(folder)


def tokens_of(folder: Path) -> tuple[int, str]:
    """Return the number and the digest of the tokens that a side wrote."""
    plain = folder / "all.bin"
    content = (
        plain.read_bytes()
        if plain.exists()
        else b"".join(
            path.read_bytes()[HEADER_BYTES:] for path in sorted((folder / "ours").glob("*.bin"))
        )
    )
    return len(content) // 2, sha256(content).hexdigest()


def text_megabytes(files: Sequence[Path]) -> float:
    """Return the UTF-8 size of all documents."""
    sizes = []
    for path in files:
        with ParquetFile(path) as table:
            for batch in table.iter_batches(columns=["text"]):
                sizes.append(sum(len(text.encode()) for text in batch.column(0).to_pylist()))
    return sum(sizes) / 1e6


if __name__ == "__main__":
    main()
