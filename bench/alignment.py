"""Cost of the visits' gradients beside a plain forward and backward.

    python -m bench.alignment

One process, one thread, alternating; CPU time, medians. Prints the ratio.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from deeploop.analysis.alignment import gram
from deeploop.analysis.subjects import looped_gpt
from deeploop.analysis.visits import visit_gradients, visited
from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.gpt import build

DEMO = Backbone(
    hidden_size=32,
    layers=6,
    heads=2,
    context_length=64,
    vocab_size=256,
    ffn_hidden=88,
    qk_norm=False,
    embedding_std=0.1,
)
WIDE = Backbone(hidden_size=256, layers=4, heads=4, context_length=256, vocab_size=4096)
ROUNDS = 15


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'model':<22}{'plain ms':>10}{'visits ms':>11}{'ratio':>8}")
    for name, backbone, rows in (("demo", DEMO, 4), ("hidden 256", WIDE, 2)):
        for loops in (3, 5):
            plain, visits = compared(backbone, rows, loops)
            label = f"{name}, R = {loops}"
            print(f"{label:<22}{plain:>10.1f}{visits:>11.1f}{visits / plain:>8.2f}")


def compared(backbone: Backbone, rows: int, loops: int) -> tuple[float, float]:
    rule = Scaling(alpha_exponent=0.5, beta_exponent=0.5)
    model = build(GPTConfig(backbone=backbone, loops=loops, scaling=rule), seed=0)
    subject = looped_gpt(model)
    size = (rows, backbone.context_length + 1)
    drawn = torch.randint(backbone.vocab_size, size, generator=torch.Generator().manual_seed(0))
    batch = drawn[:, :-1], drawn[:, 1:]

    def plain() -> None:
        model.zero_grad()
        model(*batch).backward()

    def visits() -> None:
        with visited(model, subject.blocks) as wrapped:
            found = visit_gradients(subject.forward(batch).loss(), wrapped)
        for matrix in subject.modules[0].matrices:
            gram([visit[matrix.parameter][matrix.rows] for visit in found[matrix.block]])

    times: dict[str, list[float]] = {"plain": [], "visits": []}
    for _ in range(ROUNDS):
        for label, work in (("plain", plain), ("visits", visits)):
            times[label].append(1000 * timed(work))
    return statistics.median(times["plain"]), statistics.median(times["visits"])


def timed(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
