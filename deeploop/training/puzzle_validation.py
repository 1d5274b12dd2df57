"""Validation on puzzles: scores of fixed rows of every split, shared by all processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from deeploop.training.puzzle_order import PuzzleRows, Rendered, spread_rows
from deeploop.training.world import World


def puzzle_scores(
    model: nn.Module,
    data: Mapping[str, PuzzleRows],
    rows: int,
    names: Sequence[str],
    score: Callable[[Rendered], Tensor],
    world: World,
    at_once: int,
) -> dict[str, float]:
    """Return `<split>_<name>` of every split that has rows, with the model in evaluation mode.

    Args:
        model: what `score` asks; it is in training mode again afterwards.
        data: the splits.
        rows: how many rows of a split at most, evenly spread over it.
        names: of the scores.
        score: scores of rendered rows, [names, rows].
        world: this process among the others; each scores its share.
        at_once: rows of one call of `score`; fixed, so that executions round alike.
    """
    model.eval()
    found = {
        f"{split}_{name}": value
        for split, those in data.items()
        if those.count
        for name, value in _means(those, rows, names, score, world, at_once).items()
    }
    model.train()
    return found


def _means(
    data: PuzzleRows,
    rows: int,
    names: Sequence[str],
    score: Callable[[Rendered], Tensor],
    world: World,
    at_once: int,
) -> dict[str, float]:
    """Return means over evenly spread rows; sums are taken in one order on every process."""
    chosen = spread_rows(data, rows)
    size = (len(names), len(chosen))
    scores = torch.zeros(size, dtype=torch.float64, device=world.device)
    starts = range(0, len(chosen), at_once)
    for start in starts[world.rank :: world.size]:
        here = slice(start, start + at_once)
        scores[:, here] = score(data.render(chosen[here]))
    means = world.sum(scores).mean(dim=1).tolist()
    return dict(zip(names, means, strict=True))
