"""Download the official data of downstream tasks, at pinned revisions, into a mirror.

For machines without network: fetch where there is one, copy the folder, and name it as mirror.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from deeploop.evaluation.config import PAPER_TASKS

HELP = "download the official data of the downstream tasks"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="gets <task>/<split>.parquet")
    parser.add_argument("--tasks", default="all", help="all, or names joined by commas")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.evaluation.hub import fetch_all

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    tasks = PAPER_TASKS if args.tasks == "all" else tuple(args.tasks.split(","))
    fetch_all(tasks, args.folder)
    return 0
