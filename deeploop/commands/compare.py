"""Compare two evaluations question by question.

A run is a folder with samples.parquet, or a run of the stage evaluate_lm. For each task: both
accuracies, the paired difference (B - A) with its 95 % interval, how many questions only one of
the two answers right, and McNemar's exact p-value.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from deeploop.errors import BuildError

if TYPE_CHECKING:
    from deeploop.evaluation.compare import Difference

HELP = "compare two evaluations question by question"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("a", metavar="RUN_A", help="folder, or run of evaluate_lm")
    parser.add_argument("b", metavar="RUN_B", help="likewise")
    parser.add_argument("--suite", help="suite of the runs; the default one when absent")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.evaluation.compare import compare

    found = compare(_folder(args.a, args.suite), _folder(args.b, args.suite))
    print(as_text(found))
    return 0


def as_text(found: list[Difference]) -> str:
    """Return a line a task and shot count, in percentage points."""
    head = f"{'task':16}{'shots':>5}{'n':>7}{'A':>8}{'B':>8}{'B - A':>8}{'95 %':>18}"
    return "\n".join((f"{head}{'only A':>8}{'only B':>8}{'p':>8}", *map(_line, found)))


def _line(one: Difference) -> str:
    low, high = (f"{100 * bound:+.2f}" for bound in one.interval)
    numbers = f"{100 * one.a:8.2f}{100 * one.b:8.2f}{100 * one.difference:+8.2f}"
    line = f"{one.task:16}{one.shots:5}{one.n:7}{numbers}{low + ' .. ' + high:>18}"
    if one.p_value is None:
        return line
    return f"{line}{one.only_a:8}{one.only_b:8}{one.p_value:8.3f}"


def _folder(name: str, suite: str | None) -> Path:
    if Path(name).is_dir():
        return Path(name)
    from deeploop.plan import load_plan
    from deeploop.project import find_root, store_root
    from deeploop.store import Entry, published

    root = find_root()
    run = load_plan(root, suite).get("evaluate_lm", name)
    found = published(root, run)
    if found is None:
        raise BuildError(f"{run.id} is not built: `snakemake -c all {run.manifest}`")
    return Entry(store_root(root), run.stage, found[0]).outputs_folder
