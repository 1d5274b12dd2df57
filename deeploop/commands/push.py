"""Send results to a remote, so that another clone can pull them.

Remotes are DVC's (`dvc remote add -d NAME URL`). An interrupted transfer goes on where it was.
"""

from __future__ import annotations

import argparse

from deeploop.project import find_root

HELP = "send results to a remote"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("stage", metavar="STAGE", nargs="?", help="one stage; all when absent")
    parser.add_argument("run", metavar="RUN", nargs="?", help="one run; all when absent")
    parser.add_argument("--suite", help="suite in params.yaml; its default when absent")
    parser.add_argument("--remote", help="name in .dvc/config, or an address; the default one")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.remote import push, transfer

    return transfer(find_root(), args.suite, args.stage, args.run, args.remote, push)
