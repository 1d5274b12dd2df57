"""Compute one run of one stage from inputs that are there, and print its manifest's path.

Engines call it with --planned: the job then uses the code and the specification that its build
was planned with. Without, the project is planned as it is now.
"""

from __future__ import annotations

import argparse
import os

from deeploop.project import find_root

HELP = "compute one run from inputs that are there"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("stage", metavar="STAGE", help="e.g. train_lm")
    parser.add_argument("run", metavar="RUN", help="e.g. small-deeploop-r3-s0")
    parser.add_argument("--suite", help="suite in params.yaml; its default when absent")
    parser.add_argument(
        "--planned", action="store_true", help="use the plan this job's build was made with"
    )
    parser.add_argument(
        "--new-code",
        action="store_true",
        help="resume an interrupted training with today's code instead of the copy it began with",
    )


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.frozen import FrozenPlan, code_path
    from deeploop.runner import enter_code, planned_digest, run_frozen

    root = find_root()
    os.chdir(root)
    if "DEEPLOOP_PLAN" not in os.environ:
        _join_build(args)
    digest = planned_digest(root, args.suite)
    enter_code(code_path(root, FrozenPlan(root, digest).code))
    manifest = run_frozen(root, digest, args.stage, args.run, args.new_code, quiet=args.planned)
    print(manifest.relative_to(root))
    return 0


def _join_build(args: argparse.Namespace) -> None:
    """Take the tree's build lock, to be held in whatever code this process goes on, and plan."""
    from deeploop.frozen import plan_and_freeze, pointed_plan
    from deeploop.locks import hold_build_lock
    from deeploop.plan import load_plan

    root = find_root()
    if not args.planned:
        load_plan(root, args.suite).get(args.stage, args.run)  # a mistake need not wait its turn
    lock = hold_build_lock(root, f"deeploop run {args.stage} {args.run}", wait=True)
    assert lock is not None  # it waits
    os.set_inheritable(os.dup(lock.fileno()), True)
    if args.planned:
        os.environ["DEEPLOOP_PLAN"] = pointed_plan(root, args.suite)
        return
    _, os.environ["DEEPLOOP_PLAN"] = plan_and_freeze(root, args.suite)
