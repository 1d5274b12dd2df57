"""Write a report without building anything: of what is there, or of the published numbers alone.

Without a flag, the page of the runs (times, cost, environment, lineage of every number) is written
beside the built report, as reports/SUITE/runs.html. It is no output of a build: times are not the
same twice. --partial writes a whole report at any time, also while a build runs: cells not yet run
show as pending. A run whose manifest is missing, corrupt or at odds with the store is named, the
rest is shown, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deeploop.errors import EXIT_FAILURE
from deeploop.project import find_root

HELP = "write the page of the runs, a report of a build under way, or of the published numbers"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--partial", action="store_true", help="the whole report; what has not run is pending"
    )
    kind.add_argument(
        "--published", action="store_true", help="the paper's numbers alone; needs no build"
    )
    parser.add_argument("--suite", help="suite in params.yaml; its default when absent")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder to write into; reports/SUITE, reports/SUITE-partial or reports/published "
        "when absent",
    )


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    root = find_root()
    if args.published:
        from deeploop.reporting.published_report import build_published

        folder: Path = args.out or root / "reports" / "published"
        build_published(folder)
        print(folder / "index.html")
        return 0
    from deeploop.plan import load_plan
    from deeploop.reporting.partial_report import build_partial, build_records
    from deeploop.resolve import Resolver

    plan = load_plan(root, args.suite)
    resolver = Resolver(root, plan, write=False)
    suffix = "-partial" if args.partial else ""
    folder = args.out or root / "reports" / f"{plan.suite}{suffix}"
    written, problems = (build_partial if args.partial else build_records)(resolver, folder)
    for problem in problems:
        print(f"deeploop: {problem}", file=sys.stderr)
    print(written)
    return EXIT_FAILURE if problems else 0
