"""Tokens per CPU-second of a training step, ours beside a plain loop of the same model.

    python -m bench.train_step --loops 1 --processes 5

Every measurement is a process of its own, one thread, in turn: ours, plain, plain with tuned
allocator variables. The first step of each is dropped. Ratios are of medians; beside them stands
the range over neighbouring pairs, and a range on both sides of the goal is called undecided.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench import plain_gpt
from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.flops import training_flops_per_token
from deeploop.text.shards import part_name, write_part
from deeploop.training.config import Execution, Recipe, Training, Validation
from deeploop.training.language_model import LanguageModelTask
from deeploop.training.loop import Trainer
from deeploop.training.world import joined

SPEED_GOAL = {1: 1.10, 3: 1.03}
MEMORY_GOAL = 0.9
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}
SIDES = ("ours", "plain", "plain, tuned allocator")


def config(loops: int) -> GPTConfig:
    """Return GPT-2 small's shape."""
    return GPTConfig(
        backbone=Backbone(hidden_size=768, layers=12, heads=6),
        loops=loops,
        scaling=Scaling(alpha_exponent=0.5, beta_exponent=0.5),
    )


def ours(cell: GPTConfig) -> Callable[[], object]:
    """Return our training step, the loop's own: data, clipping and bookkeeping included."""
    folder = Path(tempfile.mkdtemp())
    drawn = np.random.Generator(np.random.PCG64(0)).integers(0, 50257, 100_000, dtype=np.uint16)
    for split in ("train", "validation"):
        write_part(folder / part_name(split, 0), [drawn])
    training = Training(
        recipe=Recipe(learning_rate=1e-3, warmup_steps=10, batch_sequences=1, precision="fp32"),
        steps=1000,
        seed=0,
        validation=Validation(every_steps=1000, tokens=1024),
    )
    execution = Execution(device="cpu")
    with joined(execution) as world:
        task = LanguageModelTask(cell, training, folder, world, execution)
        trainer = Trainer(task, world, execution, folder)
    batches = trainer.batches()
    return lambda: trainer.update(batches)


def plain(cell: GPTConfig) -> Callable[[], object]:
    """Return the plain training step."""
    model = plain_gpt.PlainGPT(cell)
    optimizer = plain_gpt.adamw(model)
    batch = torch.randint(50257, (1, cell.backbone.context_length + 1))
    return lambda: plain_gpt.step(model, optimizer, batch)


def gemm_rate() -> float:
    """Return FLOPs per CPU-second of the best fp32 matrix product here."""
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    rates = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(4):
            torch.mm(left, right)
        rates.append(4 * 2 * 1024**3 / (time.process_time() - start))
    return max(rates)


def measure(side: str, loops: int, steps: int) -> dict[str, float]:
    """Measure one side in this process."""
    torch.set_num_threads(1)
    cell = config(loops)
    gemm = gemm_rate()
    step = ours(cell) if side == "ours" else plain(cell)
    step()
    start = time.process_time()
    for _ in range(steps):
        step()
    seconds = (time.process_time() - start) / steps
    tokens = cell.backbone.context_length
    return {
        "tokens_per_cpu_second": tokens / seconds,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "gemm_share": training_flops_per_token(cell) * tokens / seconds / gemm,
    }


def measured_apart(side: str, loops: int, steps: int) -> dict[str, float]:
    """Measure one side in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if side == "plain, tuned allocator":
        environment |= TUNED
    command = [sys.executable, "-m", "bench.train_step", "--side", side]
    command += ["--loops", str(loops), "--steps", str(steps)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(loops: int, processes: int, steps: int) -> None:
    """Measure all sides in turn and print the table."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(processes):
        for side in SIDES:
            found[side].append(measured_apart(side, loops, steps))
    print(f"GPT-2 small, R = {loops}, 1 x 1024 tokens, fp32, torch {torch.__version__}, one thread")
    print(f"{'':<24}{'tokens/CPU-s':>14}{'peak GB':>10}{'of GEMM rate':>14}")
    for side, results in found.items():
        columns = [statistics.median(r[name] for r in results) for name in results[0]]
        print(f"{side:<24}{columns[0]:>14.1f}{columns[1]:>10.2f}{columns[2]:>14.0%}")
    for side in SIDES[1:]:
        print(verdict(found, "tokens_per_cpu_second", side, SPEED_GOAL.get(loops)))
        print(verdict(found, "peak_gb", side, MEMORY_GOAL))


def verdict(found: dict[str, list[Any]], name: str, side: str, goal: float | None) -> str:
    """Return ours / side as a line: the ratio of medians, its range, and the goal."""
    ours_, theirs = ([result[name] for result in found[key]] for key in ("ours", side))
    ratio = statistics.median(ours_) / statistics.median(theirs)
    pairs = [mine / other for mine, other in zip(ours_, theirs, strict=True)]
    line = f"{name}, ours / {side}: {ratio:.3f} ({min(pairs):.3f} to {max(pairs):.3f})"
    if goal is None or side != "plain":
        return line
    undecided = min(pairs) < goal < max(pairs)
    met = ratio >= goal if goal > 1 else ratio <= goal
    return f"{line}, goal {goal}: {'undecided' if undecided else 'met' if met else 'missed'}"


def main() -> None:
    """Measure one side (as a child), or all in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=int, default=1, help="R (default 1)")
    parser.add_argument("--processes", type=int, default=5, help="processes a side (default 5)")
    parser.add_argument("--steps", type=int, default=3, help="measured steps of each (default 3)")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        print(json.dumps(measure(asked.side, asked.loops, asked.steps)))
    else:
        compare(asked.loops, asked.processes, asked.steps)


if __name__ == "__main__":
    main()
