"""Say why a run is what it is.

For a run that is not current: which key of which input changed, old value and new. For one that
is: its inputs with their digests, and its lineage back to the raw data.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from deeploop.project import find_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deeploop.plan import Run
    from deeploop.resolve import Resolver

HELP = "say which key of which input changed, or where a result comes from"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("stage", metavar="STAGE", help="e.g. train_lm")
    parser.add_argument("run", metavar="RUN", nargs="?", default="all", help="e.g. tiny-base-r1-s0")
    parser.add_argument("--suite", help="suite in params.yaml; its default when absent")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.plan import load_plan
    from deeploop.resolve import Resolver

    root = find_root()
    plan = load_plan(root, args.suite)
    resolver = Resolver(root, plan, write=False)
    for line in explain(resolver, plan.get(args.stage, args.run)):
        print(line)
    return 0


def explain(resolver: Resolver, run: Run) -> Iterator[str]:
    """Yield the lines that explain one run."""
    from deeploop.explain import external, reasons

    names = f" (also named {', '.join(run.aliases)})" if run.aliases else ""
    if not resolver.is_current(run):
        state = "must be computed" if resolver.is_computing(run) else "is not decided"
        yield f"{run.id}{names} {state}:"
        yield from (f"  {reason}" for reason in reasons(resolver, run))
        return
    where = "its bytes are elsewhere" if resolver.is_absent(run) else "its bytes are in the store"
    yield f"{run.id}{names} is current; {where}, key {resolver.keys[run]}"
    if external(run):
        yield "  external: a checkpoint from elsewhere stands in place of a training"
    yield from _lineage(resolver, run, "  ", set())


def _lineage(resolver: Resolver, run: Run, indent: str, seen: set[Run]) -> Iterator[str]:
    for name, output in resolver.outputs[run].items():
        yield f"{indent}{name}  sha256 {output['sha256'][:16]}  {output['bytes']:,} bytes"
    for name, digest in zip(run.draft.files, run.spec["files"], strict=True):
        yield f"{indent}from the file {name}  sha256 {digest[:16]}"
    for up in run.inputs:
        again = " (above)" if up in seen else ""
        yield f"{indent}from {up.id}, key {resolver.keys[up]}{again}"
        if not again:
            seen.add(up)
            yield from _lineage(resolver, up, indent + "  ", seen)
