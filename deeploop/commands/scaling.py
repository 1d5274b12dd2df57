"""`deeploop scaling`: alpha, beta and the bounds of every rule, side by side."""

from __future__ import annotations

import argparse
import json

from deeploop.errors import UserError
from deeploop.scaling import RULES, ScalingFamily, check_counts, sublayer_visits, unrolled_depth

HELP = "alpha, beta and bounds of every rule for K blocks applied R times"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--blocks", type=int, required=True, help="K, physical blocks")
    parser.add_argument("--loops", type=int, required=True, help="R, how often they are applied")
    parser.add_argument(
        "--p", type=float, nargs="+", default=[], help="further exponents beside the named rules"
    )
    parser.add_argument("--json", action="store_true", help="for machines")


def main(args: argparse.Namespace) -> int:
    """Print the table."""
    check_counts(blocks=args.blocks, loops=args.loops)
    exponents = RULES | {f"p={p:g}": p for p in args.p}
    rules = {name: _row(p, args.blocks, args.loops) for name, p in exponents.items()}
    if args.json:
        print(json.dumps({"rules": rules}, indent=1))
        return 0
    depth, visits = (
        unrolled_depth(args.blocks, args.loops),
        sublayer_visits(args.blocks, args.loops),
    )
    print(f"{args.blocks} blocks x {args.loops} loops: N = {depth}, M = {visits} sublayer visits")
    columns = next(iter(rules.values()))
    print(f"{'rule':<10}" + "".join(f"{name:>15}" for name in columns))
    for name, row in rules.items():
        print(f"{name:<10}" + "".join(f"{value:>15.6g}" for value in row.values()))
    return 0


def _row(p: float, blocks: int, loops: int) -> dict[str, float]:
    family = ScalingFamily.of(p)
    depth = unrolled_depth(blocks, loops)
    try:
        scale = family.scale(depth)
        return {
            "alpha": scale.alpha,
            "beta": scale.beta,
            "ratio": scale.ratio,
            "untied_bound": family.untied_bound(float(blocks), float(loops)),
            "aligned_bound": family.aligned_bound(float(blocks), float(loops)),
        }
    except OverflowError:
        raise UserError(f"p = {p:g} at N = {depth} is beyond the range of numbers") from None
