"""Check what was built against the store; exit 1 with one line a fault.

Sizes are checked; with --deep every byte. --deep sets damaged entries aside, and the next build
makes them again.
"""

from __future__ import annotations

import argparse

from deeploop.project import find_root

HELP = "check manifests against the store"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--deep", action="store_true", help="read and hash every file")
    parser.add_argument("--suite", help="one suite; all that have results when absent")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.errors import EXIT_FAILURE
    from deeploop.locks import hold_build_lock
    from deeploop.verify import shown_runs, verify

    root = find_root()
    lock = hold_build_lock(root, "deeploop verify", wait=True) if args.deep else None
    count = sum(1 for _ in shown_runs(root, args.suite))
    faults = 0
    for line in verify(root, args.deep, args.suite):
        print(line)
        faults += 1
    print(f"{count} runs checked, {faults} fault(s)")
    if lock is not None:
        lock.close()
    return EXIT_FAILURE if faults else 0
