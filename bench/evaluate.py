"""Requests per CPU-second of downstream evaluation, ours beside the harness's own adapter.

    python -m bench.evaluate --limit 4 --processes 3
    python -m bench.evaluate --limit 20 --mirror DIR --batch-sizes 1 4 8 16 32

Both score the same documents of the eight tasks, 0- and 1-shot, with the same weights of GPT-2
small's shape, in processes of their own, one thread, in turn. Where no mirror is named, documents
of about the official lengths are made up. The harness's adapter (HFLM, with accelerate) is first
tried at each batch size; its best one stands for it. Loading of model and data is not counted.

    python -m bench.evaluate --overhead [--mirror DIR]

measures everything but the model: all documents of all tasks at both shot counts, through our
adapter, with forward passes that cost nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from deeploop.evaluation.config import PAPER_TASKS
from deeploop.evaluation.sources import SAMPLES, task_folders

SPEED_GOAL, MEMORY_GOAL, OVERHEAD_GOAL = 1.5, 0.5, 70.0
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> int:
    """Run the benchmark, or one measurement of it."""
    args = parser().parse_args()
    if args.side:
        print(json.dumps(measure(args)))
        return 0
    if args.overhead:
        with tempfile.TemporaryDirectory() as folder:
            mirror = args.mirror or made_up_mirror(Path(folder), args.limit)
            return report_overhead(run("overhead", 0, mirror, args.limit))
    return report(args)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument("--limit", type=int, help="documents of each task (4; all for --overhead)")
    made.add_argument("--mirror", type=Path, help="official data; made up when absent")
    made.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    made.add_argument("--processes", type=int, default=3, help="measurements of each side")
    made.add_argument("--batch-tokens", type=int, default=1024, help="ours")
    made.add_argument("--overhead", action="store_true")
    made.add_argument("--side", choices=("ours", "hflm", "overhead"), help=argparse.SUPPRESS)
    made.add_argument("--batch", type=int, default=0, help=argparse.SUPPRESS)
    made.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    return made


def report(args: argparse.Namespace) -> int:
    limit = args.limit or 4
    with tempfile.TemporaryDirectory() as folder:
        model = made_up_model(Path(folder))
        mirror = args.mirror or made_up_mirror(Path(folder), limit)
        tried = {size: run("hflm", size, mirror, limit, model) for size in args.batch_sizes}
        for size, found in tried.items():
            print(f"HFLM, batch size {size:3}: {line(found)}", flush=True)
        best = max(tried, key=lambda size: rate(tried[size]))
        pairs = []
        for _ in range(args.processes):
            ours = run("ours", args.batch_tokens, mirror, limit, model)
            theirs = run("hflm", best, mirror, limit, model)
            print(f"ours: {line(ours)}\nHFLM: {line(theirs)}", flush=True)
            pairs.append((ours, theirs))
    speed = [rate(ours) / rate(theirs) for ours, theirs in pairs]
    whole, heaps, added = (
        statistics.median(o[name] / t[name] for o, t in pairs)
        for name in ("peak_mb", "beyond_libraries_mb", "beyond_weights_mb")
    )
    print(
        f"requests per CPU-second: {statistics.median(speed):.2f} times HFLM's at batch size {best}"
        f" ({min(speed):.2f} to {max(speed):.2f}; goal {SPEED_GOAL})\n"
        f"peak memory: {whole:.2f} times HFLM's in all, {heaps:.2f} times beyond libraries, "
        f"{added:.2f} times beyond libraries and weights (goal {MEMORY_GOAL})\n"
        f"largest difference of a log-likelihood: {difference(*pairs[0]):.1e}"
    )
    return 0


def report_overhead(found: dict[str, Any]) -> int:
    print(f"{found['requests']} requests; {found['loading']:.1f} CPU-seconds to load the data")
    for shots, seconds in found["shots"].items():
        print(f"{shots}-shot: {seconds:.1f} CPU-seconds")
    print(f"in all {found['cpu']:.1f} CPU-seconds (goal {OVERHEAD_GOAL})")
    return 0


def run(
    side: str, batch: int, mirror: Path, limit: int | None, model: Path | None = None
) -> dict[str, Any]:
    """Return one measurement, made in a process of its own."""
    command = [sys.executable, "-m", "bench.evaluate", "--side", side, "--batch", str(batch)]
    command += ["--mirror", str(mirror), *(["--limit", str(limit)] if limit else [])]
    command += ["--model", str(model)] if model else []
    done = subprocess.run(command, env={**environment(), **THREADS}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def environment() -> dict[str, str]:
    import os

    return dict(os.environ)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    if args.side == "overhead":
        return measure_overhead(args)
    from deeploop.evaluation.harness import load_tasks
    from deeploop.evaluation.run_task import run_task

    tasks = load_tasks(task_folders(args.mirror, PAPER_TASKS))
    opened = imported_ours() if args.side == "ours" else imported_theirs()
    libraries = resident_mb()
    lm = opened(args.model, args.batch)
    start, values = cpu(), []
    for task in tasks:
        for shots in (0, 1):
            rows = run_task(lm, task.task, task.name, shots, args.limit).rows
            values += [row["loglikelihood"] for row in rows]
    used, peak = cpu() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    memory = {
        "peak_mb": peak,
        "beyond_libraries_mb": peak - libraries,
        "beyond_weights_mb": peak - libraries - weights_mb(lm),
    }
    return {"requests": len(values), "cpu": used, "values": values, **memory}


def measure_overhead(args: argparse.Namespace) -> dict[str, Any]:
    from deeploop.evaluation.harness import load_tasks
    from deeploop.evaluation.run_task import run_task

    model, start = instant(), cpu()
    tasks = load_tasks(task_folders(args.mirror, PAPER_TASKS))
    loading = cpu() - start
    shots, requests = {0: 0.0, 1: 0.0}, 0
    for task in tasks:
        for count in shots:
            before = cpu()
            requests += len(run_task(model, task.task, task.name, count, args.limit).rows)
            shots[count] += cpu() - before
    return {"requests": requests, "loading": loading, "shots": shots, "cpu": cpu()}


def imported_ours() -> Callable[[Path, int], Any]:
    from deeploop.evaluation.adapter import LoopedLM
    from deeploop.evaluation.scorers import LocalScorer
    from deeploop.nn.folder import open_model
    from deeploop.text.tokenizers import load_tokenizer

    def ours(model: Path, batch_tokens: int) -> Any:
        scorer = LocalScorer(open_model(model, "cpu"), "fp32")
        return LoopedLM(scorer, load_tokenizer("gpt2"), 1024, batch_tokens)

    return ours


def imported_theirs() -> Callable[[Path, int], Any]:
    from bench.hflm import hflm

    return hflm


def instant() -> Any:
    """Return our adapter over forward passes that cost nothing."""
    import numpy as np

    from deeploop.evaluation.adapter import LoopedLM
    from deeploop.evaluation.packing import Batch
    from deeploop.evaluation.scoring import Scores
    from deeploop.text.tokenizers import load_tokenizer

    class Instant:
        precision = "fp32"
        model = None

        def score(self, batches: Sequence[Batch]) -> Iterator[Scores]:
            for batch in batches:
                values = -np.arange(1, len(batch.targets) + 1, dtype=np.float32)
                yield Scores(values, values > 0)

    return LoopedLM(Instant(), load_tokenizer("gpt2"), 1024, 16384)


def made_up_model(folder: Path) -> Path:
    """Write an untrained model of GPT-2 small's shape."""
    from safetensors.torch import save_file

    from deeploop.nn.config import Backbone, GPTConfig, Scaling
    from deeploop.nn.gpt import build

    config = GPTConfig(
        backbone=Backbone(hidden_size=768, layers=12, heads=12),
        loops=1,
        scaling=Scaling(alpha_exponent=0.5, beta_exponent=0.5),
    )
    save_file(build(config, seed=0).state_dict(), folder / "model.safetensors")
    description = {"config": config.model_dump(), "tokenizer": "gpt2"}
    (folder / "model.json").write_text(json.dumps(description))
    return folder


def made_up_mirror(folder: Path, limit: int | None = None) -> Path:
    """Write documents of about the official number and length, put together from the samples."""
    from deeploop.evaluation.hub import HUB

    draw = random.Random(0)
    for task, train in TRAIN_DOCUMENTS.items():
        (folder / task).mkdir()
        evaluated = limit or HUB[task].documents
        for split, count in ((HUB[task].evaluated, evaluated), ("train", limit or train)):
            path = SAMPLES / task / f"{split}.jsonl"
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            lines = (json.dumps(lengthened(task, rows, draw)) + "\n" for _ in range(count))
            (folder / task / f"{split}.jsonl").write_text("".join(lines))
    return folder


TRAIN_DOCUMENTS = {
    "arc_challenge": 1119,
    "arc_easy": 2251,
    "hellaswag": 39905,
    "openbookqa": 4957,
    "piqa": 16113,
    "sciq": 11679,
    "social_iqa": 33410,
    "winogrande": 40398,
}
TIMES = {
    "arc_challenge": {"question": 2},
    "arc_easy": {"question": 2},
    "hellaswag": {"ctx_a": 4, "endings": 3},
    "piqa": {"sol1": 3, "sol2": 3},
    "sciq": {"support": 8},
    "social_iqa": {"context": 2},
}
"""How many of the samples' texts make one of about the official length."""


def lengthened(task: str, rows: list[dict[str, Any]], draw: random.Random) -> dict[str, Any]:
    """Return a document with texts of several, and its words in a new order where it is short."""
    row = dict(draw.choice(rows))
    for field, times in TIMES.get(task, {}).items():
        texts = [draw.choice(rows)[field] for _ in range(times)]
        if isinstance(row[field], list):
            row[field] = [" ".join(parts) for parts in zip(*texts, strict=True)]
        else:
            row[field] = " ".join(texts)
    return row


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def weights_mb(lm: Any) -> float:
    model = lm.scorer.model if hasattr(lm, "scorer") else lm.model
    return float(sum(weight.nbytes for weight in model.parameters()) / 2**20)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def rate(found: dict[str, Any]) -> float:
    return float(found["requests"] / found["cpu"])


def line(found: dict[str, Any]) -> str:
    return (
        f"{rate(found):6.2f} requests per CPU-second, {found['peak_mb']:5.0f} MB, "
        f"{found['beyond_libraries_mb']:5.0f} beyond libraries, "
        f"{found['beyond_weights_mb']:5.0f} beyond weights too"
    )


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    return max(abs(a - b) for a, b in zip(ours["values"], theirs["values"], strict=True))


if __name__ == "__main__":
    sys.exit(main())
