"""`deeploop hrm`: check this HRM against a reference file, import a published checkpoint."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from deeploop.errors import EXIT_FAILURE, UserError

if TYPE_CHECKING:
    from deeploop.training.hrm_check import Deviation

HELP = "check HRM against reference tensors, import published checkpoints"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = commands.add_parser(
        "check",
        help="replay a reference file and print the deviations",
        description="replay a reference file and print the deviations",
    )
    check.add_argument(
        "file", type=Path, help="a safetensors file, its configuration in its metadata"
    )
    check.add_argument("--json", action="store_true", help="every tensor's deviation as JSON")
    bring = commands.add_parser(
        "import",
        help="turn a published checkpoint into a model folder",
        description="turn a published checkpoint into a model folder",
    )
    bring.add_argument(
        "file", type=Path, help="what the published code saved, or a safetensors file"
    )
    bring.add_argument("--out", type=Path, required=True, help="folder to write")
    bring.add_argument("--heads", type=int, default=8, help="attention heads")
    bring.add_argument(
        "--cycles",
        type=int,
        nargs=2,
        default=(2, 2),
        metavar=("H", "L"),
        help="cycles of H and of L",
    )
    bring.add_argument("--sequence-length", type=int, default=900, help="tokens of a grid")
    bring.add_argument("--halt-max-steps", type=int, default=16, help="segments at most")
    bring.add_argument(
        "--precision", choices=("bf16", "fp32"), default="bf16", help="of the forward pass"
    )
    bring.add_argument("--identifiers", type=Path, help="identifiers.json of the build it must fit")


def main(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    return _check(args) if args.action == "check" else _import(args)


def _check(args: argparse.Namespace) -> int:
    from deeploop.training.hrm_check import check
    from deeploop.training.hrm_reference import read_reference

    deviations = check(read_reference(args.file))
    print(_as_json(deviations) if args.json else _as_table(deviations))
    return 0 if all(deviation.holds for deviation in deviations) else EXIT_FAILURE


def _as_table(deviations: list[Deviation]) -> str:
    """Return one line a quantity: its largest deviation, the limit, and the tensor it is in."""
    lines = [f"{'quantity':<34}{'deviation':>11}{'limit':>9}       tensor"]
    for quantity in dict.fromkeys(deviation.quantity for deviation in deviations):
        of_it = [deviation for deviation in deviations if deviation.quantity == quantity]
        worst = max(of_it, key=lambda deviation: deviation.relative)
        verdict = "ok" if worst.holds else "FAILS"
        lines.append(
            f"{quantity:<34}{worst.relative:>11.2e}{worst.limit:>9.0e} {verdict:<6}{worst.where}"
        )
    failures = sum(not deviation.holds for deviation in deviations)
    lines.append(f"{len(deviations)} tensors compared, {failures} beyond their limit")
    return "\n".join(lines)


def _as_json(deviations: list[Deviation]) -> str:
    rows = [
        {
            "quantity": deviation.quantity,
            "tensor": deviation.where,
            "relative": deviation.relative,
            "limit": deviation.limit,
            "holds": deviation.holds,
        }
        for deviation in deviations
    ]
    return json.dumps(rows, indent=1)


def _import(args: argparse.Namespace) -> int:
    from deeploop.nn.hrm import HRM
    from deeploop.nn.hrm_weights import fill, inferred_config, read_checkpoint, save_model

    weights = read_checkpoint(args.file)
    given = {
        "heads": args.heads,
        "h_cycles": args.cycles[0],
        "l_cycles": args.cycles[1],
        "sequence_length": args.sequence_length,
        "halt_max_steps": args.halt_max_steps,
        "precision": args.precision,
    }
    if args.identifiers is not None:
        given["identifiers"] = _count(args.identifiers)
    config = inferred_config(weights, given)
    model = HRM(config)
    fill(model, weights, str(args.file))
    save_model(args.out, config, model.state_dict())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{args.out}: {parameters:,} parameters, {config.identifiers:,} puzzle identifiers")
    return 0


def _count(path: Path) -> int:
    try:
        names = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable list of identifiers ({error})") from None
    if not isinstance(names, list):
        raise UserError(f"{path}: expected a JSON list of identifiers")
    return len(names)
