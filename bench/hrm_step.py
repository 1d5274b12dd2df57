"""HRM's training step and evaluation, beside a plain implementation of the published structure.

    python -m bench.hrm_step                    # CPU, one thread, ARC's shape
    python -m bench.hrm_step --device cuda --rows 96 --precision bf16 --compile block

Both sides run in separate processes, in turn; the medians of steps per CPU-second (on a GPU per
second) are compared, and 'undecided' is said where the ranges overlap around equality. Then both
evaluate 4,096 rows of 900 tokens with a small model, and the memory each adds is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIDES = ("ours", "plain")
EVALUATED_ROWS = 4096
EVALUATED_AT_ONCE = 16
TOKENS = 900
IDENTIFIERS = 1000


def main() -> None:
    options = parsed()
    if options.child:
        child(options)
        return
    report_steps([run_child("step", side, options) for side in SIDES * options.repeats], options)
    if options.device == "cpu":
        report_memory([run_child("memory", side, options) for side in SIDES])


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1, help="rows a step")
    parser.add_argument(
        "--steps", type=int, default=3, help="timed steps a process, after one more"
    )
    parser.add_argument("--repeats", type=int, default=5, help="processes a side")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--compile", choices=("none", "block", "model"), default="none")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_child(what: str, side: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one measurement in a process of its own and return what it printed."""
    command = [sys.executable, "-P", "-m", "bench.hrm_step", "--child", what, side]
    for name in ("rows", "steps", "device", "precision", "compile"):
        command += [f"--{name}", str(getattr(options, name))]
    root = str(Path(__file__).parents[1])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": root}
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    print(f"{what:<7}{side:<6} {found}", flush=True)
    return found | {"side": side}


def report_steps(found: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print medians and ranges, and the ratio of each process to its neighbour in time."""
    rates = {side: [f["rate"] for f in found if f["side"] == side] for side in SIDES}
    unit = "CPU-second" if options.device == "cpu" else "second"
    for side, values in rates.items():
        middle = statistics.median(values)
        print(f"{side:<6} {middle:.4f} steps a {unit} ({min(values):.4f} to {max(values):.4f})")
    pairs = [ours / plain for ours, plain in zip(rates["ours"], rates["plain"], strict=True)]
    undecided = " (undecided: pairs differ in sign)" if min(pairs) < 1 < max(pairs) else ""
    middle = statistics.median(pairs)
    print(
        f"ours / plain, of pairs in turn: {middle:.3f} ({min(pairs):.3f} to {max(pairs):.3f})"
        f"{undecided}"
    )


def report_memory(found: list[dict[str, Any]]) -> None:
    """Print the memory that evaluating added on each side."""
    added = {f["side"]: f["added_mb"] for f in found}
    ratio = added["ours"] / added["plain"]
    print(
        f"evaluating {EVALUATED_ROWS:,} rows of {TOKENS} tokens: ours {added['ours']:.0f} MB, "
        f"plain {added['plain']:.0f} MB beyond what was there before; ratio {ratio:.2f}"
    )


def child(options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(1)
    what, side = options.child
    print(json.dumps((timed if what == "step" else memory)(side, options)))


def timed(side: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return steps per CPU-second (GPU: per second) and the peak memory."""
    import torch

    make = {"ours": our_step, "plain": plain_step}[side]
    step = make(options)
    step()
    clock = time.process_time
    if options.device == "cuda":
        clock = time.perf_counter
        torch.cuda.synchronize()
    start = clock()
    for _ in range(options.steps):
        loss = step()
    if options.device == "cuda":
        torch.cuda.synchronize()
    seconds = clock() - start
    return {"rate": options.steps / seconds, "peak_mb": peak_mb(), "loss": loss.item()}


def arc_config(options: argparse.Namespace) -> Any:
    from deeploop.nn.hrm_config import HRMConfig

    sizes = {"sequence_length": TOKENS, "vocab_size": 12, "identifiers": IDENTIFIERS}
    return HRMConfig(**sizes, precision=options.precision)


def random_rows(rows: int, device: str) -> tuple[Any, Any, Any]:
    import torch

    draw = torch.Generator().manual_seed(0)
    inputs, labels = torch.randint(0, 12, (2, rows, TOKENS), generator=draw, dtype=torch.int32)
    puzzles = torch.randint(1, IDENTIFIERS, (rows,), generator=draw, dtype=torch.int32)
    return inputs.to(device), labels.to(device), puzzles.to(device)


def our_step(options: argparse.Namespace) -> Callable[[], Any]:
    """Return a training step of `deeploop`."""
    import torch

    from deeploop.nn.hrm import HRM, initialise
    from deeploop.nn.hrm_halting import (
        Batch,
        Exploration,
        admit,
        empty_carry,
        segment_loss,
        train_segment,
    )
    from deeploop.training.adam_atan2 import AdamATan2
    from deeploop.training.allocator import keep_freed_memory
    from deeploop.training.sparse_sign import SparseSignSGD
    from deeploop.training.world import World

    device = torch.device(options.device)
    keep_freed_memory()  # as a training does
    model = HRM(arc_config(options))
    initialise(model, 0)
    model.to(device)
    model.compile_as(options.compile)
    dense = AdamATan2(model.parameters())
    sparse = SparseSignSGD(model.puzzle_emb.weights, 1e-2, 0.1, World(device))
    batch = Batch(*random_rows(options.rows, options.device))
    carry = empty_carry(model, batch)
    draws = Exploration(*torch.ones(2, options.rows, device=device))

    def step() -> Any:
        nonlocal carry
        carry = admit(model, carry, batch)
        puzzle = sparse.borrow(carry.current.puzzles)
        segment = train_segment(model, carry, puzzle, draws)
        loss, _ = segment_loss(model, segment)
        (loss / options.rows).backward()
        for optimizer in (dense, sparse):
            optimizer.step()
            optimizer.zero_grad()
        carry = segment.carry
        return loss.detach()

    return step


def plain_step(options: argparse.Namespace) -> Callable[[], Any]:
    """Return a training step of the plain implementation."""
    import torch

    from bench.plain_hrm import PlainAdamATan2, PlainHRM, first_carry, plain_sign_sgd, train_step
    from deeploop.nn.hrm import HRM, initialise

    weights = HRM(arc_config(options))
    initialise(weights, 0)
    model = PlainHRM(arc_config(options))
    model.load_state_dict(weights.state_dict())
    model.to(options.device)
    if options.compile != "none":
        model.compile(dynamic=False)
    optimizer = PlainAdamATan2(list(model.parameters()), lr=1e-4, betas=(0.9, 0.95), wd=0.1)
    named = ("inputs", "labels", "puzzle_identifiers")
    batch = dict(zip(named, random_rows(options.rows, options.device), strict=True))
    carry = {k: v.to(options.device) for k, v in first_carry(model, batch).items()}
    draws = torch.ones(2, options.rows, device=options.device)

    def step() -> Any:
        nonlocal carry
        loss, carry, _, puzzle = train_step(model, carry, batch, *draws)
        (loss / options.rows).backward()
        optimizer.step()
        ids = carry["current.puzzle_identifiers"]
        plain_sign_sgd(model.puzzle_emb.weights, ids, puzzle.grad, 1e-2, 0.1)
        model.zero_grad()
        return loss.detach()

    return step


def memory(side: str, options: argparse.Namespace) -> dict[str, Any]:
    """Evaluate with a small model; return the memory added to a process that is warm."""
    from deeploop.nn.hrm import HRM, initialise
    from deeploop.nn.hrm_config import HRMConfig

    sizes = {"sequence_length": TOKENS, "vocab_size": 12, "identifiers": IDENTIFIERS}
    small = {"hidden_size": 32, "heads": 1, "puzzle_embedding_size": 32, "h_cycles": 1}
    layers = {"l_cycles": 1, "h_layers": 1, "l_layers": 1, "halt_max_steps": 1}
    config = HRMConfig(**sizes, **small, **layers, precision="fp32")
    model = HRM(config)
    initialise(model, 0)
    evaluate = {"ours": our_evaluation, "plain": plain_evaluation}[side](config, model)
    evaluate(EVALUATED_AT_ONCE)
    before = peak_mb()
    rows = evaluate(EVALUATED_ROWS)
    return {"added_mb": max(peak_mb() - before, 1e-3), "rows": rows}


class RandomRows:
    """Rows of random tokens, rendered when asked for."""

    count, tokens, vocabulary, identifiers = EVALUATED_ROWS, TOKENS, 12, IDENTIFIERS

    def render(self, rows: Any) -> tuple[Any, Any, Any]:
        inputs, labels, puzzles = (part.numpy() for part in random_rows(len(rows), "cpu"))
        return inputs.astype("uint8"), labels.astype("uint8"), puzzles


def our_evaluation(config: Any, model: Any) -> Callable[[int], int]:
    """Return an evaluation of so many rows as `predict_arc` does it."""
    import torch

    from deeploop.evaluation.arc_models import HRMModel
    from deeploop.evaluation.arc_prediction import Answers, answered

    def evaluate(rows: int) -> int:
        answers = Answers(rows, TOKENS)
        opened = HRMModel(model, torch.device("cpu"))
        batches = answered(opened, RandomRows(), range(rows), EVALUATED_AT_ONCE, answers)
        return sum(batches)

    return evaluate


def plain_evaluation(config: Any, model: Any) -> Callable[[int], int]:
    """Return an evaluation that keeps what the published one saves: tokens, labels, logits."""
    import torch

    from bench.plain_hrm import PlainHRM, evaluate

    plain = PlainHRM(config)
    plain.load_state_dict(model.state_dict())

    def evaluate_all(rows: int) -> int:
        kept = []
        for _ in range(0, rows, EVALUATED_AT_ONCE):
            tokens = random_rows(EVALUATED_AT_ONCE, "cpu")
            named = ("inputs", "labels", "puzzle_identifiers")
            outputs = evaluate(plain, dict(zip(named, tokens, strict=True)))
            kept.append((*tokens, outputs["logits"], outputs["q_halt_logits"]))
        joined = [torch.cat(parts) for parts in zip(*kept, strict=True)]
        return len(joined[0])

    return evaluate_all


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
