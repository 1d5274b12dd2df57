"""Show every run of a suite: built, missing, stale and why, running and by whom.

`*` marks dear runs whose code or libraries changed since they were built; they are not rebuilt
unless their `version` is raised.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import TYPE_CHECKING

from deeploop.project import find_root

if TYPE_CHECKING:
    from deeploop.status import State

HELP = "show every run: built, missing, stale and why, running"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--suite", help="suite in params.yaml; its default when absent")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.plan import load_plan
    from deeploop.resolve import Resolver
    from deeploop.status import states

    root = find_root()
    plan = load_plan(root, args.suite)
    found = list(states(Resolver(root, plan, write=False)))
    if args.json:
        runs = [state.as_json() for state in found]
        print(json.dumps({"suite": plan.suite, "runs": runs}, indent=1))
    else:
        print(f"suite {plan.suite}")
        for state in found:
            print(_line(state, max(len(f"{s.stage}/{s.run}") for s in found)))
        counts = Counter(state.state for state in found)
        print(", ".join(f"{number} {name}" for name, number in counts.most_common()))
    return 0


def _line(state: State, width: int) -> str:
    mark = "*" if state.changed_since else " "
    notes = [*state.why]
    if state.changed_since:
        notes.append(f"changed since it was built: {', '.join(state.changed_since)}")
    if state.external:
        notes.append("external checkpoint")
    name = f"{state.stage}/{state.run}"
    return f"{mark} {name:<{width}}  {state.state:<11}  {'; '.join(notes)}".rstrip()
