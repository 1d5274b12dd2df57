"""Requests per CPU-second of downstream evaluation, ours beside the harness's own adapter.

    python -m bench.evaluate --limit 4 --processes 3
    python -m bench.evaluate --limit 20 --mirror DIR --batch-sizes 1 4 8 16 32

Both score the same documents of the eight tasks, 0- and 1-shot, with the same weights of GPT-2
small's shape, in processes of their own, one thread, in turn. The harness's adapter (HFLM, with
accelerate) is first tried at each batch size; its best one stands for it. Loading of model and
data is not counted. Peak memory is the whole process's.

    python -m bench.evaluate --overhead [--mirror DIR]

measures everything but the model: all tasks and both shot counts with a model that answers at
once, on made-up documents in the official numbers where no mirror is named.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deeploop.evaluation.config import PAPER_TASKS, Evaluation, EvaluationExecution
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
            mirror = args.mirror or made_up_mirror(Path(folder))
            return report_overhead(run("overhead", 0, mirror, args.limit))
    return report(args)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--limit", type=int, help="documents of each task (4; all for --overhead)")
    made.add_argument("--mirror", type=Path, help="official data; else the project's samples")
    made.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    made.add_argument("--processes", type=int, default=3, help="measurements of each side")
    made.add_argument("--batch-tokens", type=int, default=1024, help="ours")
    made.add_argument("--overhead", action="store_true")
    made.add_argument("--side", choices=("ours", "hflm", "overhead"), help=argparse.SUPPRESS)
    made.add_argument("--batch", type=int, default=0, help=argparse.SUPPRESS)
    made.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    return made


def report(args: argparse.Namespace) -> int:
    limit, mirror = args.limit or 4, args.mirror or SAMPLES
    with tempfile.TemporaryDirectory() as folder:
        model = made_up_model(Path(folder))
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
    memory = statistics.median(o["peak_mb"] / t["peak_mb"] for o, t in pairs)
    print(
        f"requests per CPU-second: {statistics.median(speed):.2f} times HFLM's at batch size {best}"
        f" ({min(speed):.2f} to {max(speed):.2f}; goal {SPEED_GOAL})\n"
        f"peak memory: {memory:.2f} times (goal {MEMORY_GOAL})\n"
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

    lm = ours(args.model, args.batch) if args.side == "ours" else theirs(args.model, args.batch)
    tasks = load_tasks(task_folders(args.mirror, PAPER_TASKS))
    start, values = cpu(), []
    for task in tasks:
        for shots in (0, 1):
            rows = run_task(lm, task.task, task.name, shots, args.limit).rows
            values += [row["loglikelihood"] for row in rows]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"requests": len(values), "cpu": cpu() - start, "peak_mb": peak, "values": values}


def measure_overhead(args: argparse.Namespace) -> dict[str, Any]:
    from deeploop.evaluation.harness import load_tasks
    from deeploop.evaluation.run_task import run_task

    start, model = cpu(), instant()
    tasks = load_tasks(task_folders(args.mirror, PAPER_TASKS))
    loading = cpu() - start
    shots, requests = {0: 0.0, 1: 0.0}, 0
    for task in tasks:
        for count in shots:
            before = cpu()
            requests += len(run_task(model, task.task, task.name, count, args.limit).rows)
            shots[count] += cpu() - before
    return {"requests": requests, "loading": loading, "shots": shots, "cpu": cpu()}


def ours(model: Path, batch_tokens: int) -> Any:
    from deeploop.evaluation.adapter import LoopedLM
    from deeploop.evaluation.model import open_model
    from deeploop.evaluation.scorers import LocalScorer
    from deeploop.text.tokenizers import load_tokenizer

    scorer = LocalScorer(open_model(model, "cpu"), "fp32")
    return LoopedLM(scorer, load_tokenizer("gpt2"), 1024, batch_tokens)


def theirs(model: Path, batch_size: int) -> Any:
    from bench.hflm import hflm
    from deeploop.evaluation.model import open_model

    return hflm(open_model(model, "cpu"), "gpt2", batch_size)


def instant() -> Any:
    from lm_eval.api.model import LM

    class Instant(LM):
        def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
            return [(-float(number), False) for number in range(len(requests))]

        def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
            raise NotImplementedError

        def generate_until(self, requests: Sequence[Any]) -> list[str]:
            raise NotImplementedError

    return Instant()


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


def made_up_mirror(folder: Path) -> Path:
    """Write documents in the official numbers: those of the samples, with their words drawn anew."""
    from deeploop.evaluation.hub import HUB

    draw = random.Random(0)
    for task, sizes in OFFICIAL_TRAIN.items():
        (folder / task).mkdir()
        for split, count in ((HUB[task].evaluated, HUB[task].documents), ("train", sizes)):
            path = SAMPLES / task / f"{split}.jsonl"
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            with (folder / task / f"{split}.jsonl").open("w") as file:
                for _ in range(count):
                    file.write(json.dumps(reworded(draw.choice(rows), draw)) + "\n")
    return folder


OFFICIAL_TRAIN = {
    "arc_challenge": 1119,
    "arc_easy": 2251,
    "hellaswag": 39905,
    "openbookqa": 4957,
    "piqa": 16113,
    "sciq": 11679,
    "social_iqa": 33410,
    "winogrande": 40398,
}
"""Documents of each training split."""


def reworded(row: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return a document whose longest text has its words in another order."""
    longest = max((key for key in row if isinstance(row[key], str)), key=lambda key: len(row[key]))
    words = row[longest].split()
    draw.shuffle(words)
    return {**row, longest: " ".join(words)}


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def rate(found: dict[str, Any]) -> float:
    return float(found["requests"] / found["cpu"])


def line(found: dict[str, Any]) -> str:
    return f"{rate(found):6.2f} requests per CPU-second, {found['peak_mb']:6.0f} MB"


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    return max(abs(a - b) for a, b in zip(ours["values"], theirs["values"], strict=True))


if __name__ == "__main__":
    sys.exit(main())
