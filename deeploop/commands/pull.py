"""Fetch results from a remote; checksums are verified on arrival.

Remotes are DVC's (`dvc remote add -d NAME URL`). An interrupted transfer goes on where it was.
"""

from __future__ import annotations

import argparse

from deeploop.commands.push import configure
from deeploop.project import find_root

HELP = "fetch results from a remote"

__all__ = ["HELP", "configure", "main"]


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.remote import pull, transfer

    return transfer(find_root(), args.suite, args.stage, args.run, args.remote, pull)
