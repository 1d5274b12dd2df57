"""Remove from the store what no suite's manifests reach, saying what and how large.

Never removed: what any suite of params.yaml shows or would compute with its present values, what
an interrupted run would resume from, and what a running job holds.
"""

from __future__ import annotations

import argparse
import shutil

from deeploop.project import find_root

HELP = "remove store entries that nothing leads to"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.collect import garbage
    from deeploop.locks import hold_build_lock

    root = find_root()
    lock = hold_build_lock(root, "deeploop gc", wait=True)
    found = garbage(root)
    for item in found:
        name = item.path.relative_to(item.path.parents[1])
        print(f"{_readable(item.bytes):>10}  {name}  {item.what}")
        if not args.dry_run:
            shutil.rmtree(item.path) if item.path.is_dir() else item.path.unlink()
    done = "would be removed" if args.dry_run else "removed"
    print(f"{len(found)} item(s), {_readable(sum(item.bytes for item in found))} {done}")
    assert lock is not None  # held until here
    return 0


def _readable(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
