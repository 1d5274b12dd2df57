"""Requests to batches: what is forwarded once for all choices of a question.

A request is a sequence whose last tokens are scored. The choices of one question share most of
theirs, so they become one row: the shared front, then each choice's own tokens as a branch that
sees the front and itself. The order of rows, and so every batch, depends on the requests alone,
never on how many processes share the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]


class Request(NamedTuple):
    """A sequence for the model, and the tokens that should follow its last positions."""

    inputs: Sequence[int]
    targets: Sequence[int]
    """Wanted after each of the last `len(targets)` inputs."""


@dataclass
class Row:
    """Requests that share their first `shared` inputs, packed one after the other."""

    members: list[int]
    """Indices of requests."""
    shared: int
    length: int
    """Tokens of the row: the shared ones once, and each member's own."""


@dataclass(frozen=True)
class Batch:
    """Rows that are forwarded together, as arrays."""

    tokens: Array
    """[rows, length]; padded on the right, where a causal model does not look."""
    positions: Array
    """[rows, length]: each token's position in its own sequence."""
    branches: Array
    """[rows, length]: 0 for shared tokens, else the branch."""
    scored: Array
    """[targets]: index into rows * length of the state that predicts each target."""
    targets: Array
    owners: Array
    """[targets]: the request that each target belongs to."""

    @property
    def branched(self) -> bool:
        """Whether any row has branches, and so needs a mask."""
        return bool(self.branches.any())


def fitted(context: Sequence[int], continuation: Sequence[int], window: int) -> list[Request]:
    """Return the requests that score `continuation` after `context` with at most `window` inputs.

    What does not fit is cut from the left of the context, as the harness does. A continuation
    longer than the window, which the harness refuses, is scored in pieces of half a window, each
    with as much before it as fits.
    """
    whole = [*context, *continuation]
    start, stop = len(context), len(whole)
    step = len(continuation) if len(continuation) <= window else max(1, window // 2)
    requests = []
    for first in range(start, stop, step):
        last = min(first + step, stop)
        requests.append(Request(whole[max(0, last - 1 - window) : last - 1], whole[first:last]))
    return requests


def pack(requests: Sequence[Request], batch_tokens: int) -> list[Batch]:
    """Return batches of at most `batch_tokens` padded tokens (or one row), longest rows first."""
    rows = sorted(_rows(requests, batch_tokens), key=lambda row: -row.length)  # stable
    return [_batch(chunk, requests) for chunk in _chunks(rows, batch_tokens)]


def _rows(requests: Sequence[Request], limit: int) -> Iterator[Row]:
    """Join a request with its neighbours' row where that saves a quarter of its tokens."""
    row: Row | None = None
    for index, request in enumerate(requests):
        size = len(request.inputs)
        if row is not None:
            shared = _common(requests[row.members[0]].inputs, request.inputs, row.shared)
            # the front is taken once, but what is no longer shared is repeated by every member
            saved = row.shared - len(row.members) * (row.shared - shared)
            length = row.length + size - saved
            if saved >= size / 4 and length <= limit:
                row = Row([*row.members, index], shared, length)
                continue
            yield row
        row = Row([index], size, size)
    if row is not None:
        yield row


def _common(left: Sequence[int], right: Sequence[int], limit: int) -> int:
    """Return how many of the first `limit` tokens are equal, by bisection over whole fronts."""
    known, limit = 0, min(limit, len(left), len(right))
    if left[:limit] == right[:limit]:
        return limit
    while limit - known > 1:
        middle = (known + limit) // 2
        if left[known:middle] == right[known:middle]:
            known = middle
        else:
            limit = middle
    return known


def _chunks(rows: Sequence[Row], batch_tokens: int) -> Iterator[Sequence[Row]]:
    start = 0
    while start < len(rows):
        stop = start + max(1, batch_tokens // rows[start].length)
        yield rows[start:stop]
        start = stop


def _batch(rows: Sequence[Row], requests: Sequence[Request]) -> Batch:
    length = rows[0].length
    tokens, positions, branches = (np.zeros((len(rows), length), np.int64) for _ in range(3))
    scored, targets, owners = [], [], []
    for number, row in enumerate(rows):
        tokens[number, : row.shared] = requests[row.members[0]].inputs[: row.shared]
        positions[number, : row.shared] = np.arange(row.shared)
        start = row.shared
        for branch, member in enumerate(row.members, 1):
            request = requests[member]
            stop = start + len(request.inputs) - row.shared
            tokens[number, start:stop] = request.inputs[row.shared :]
            positions[number, start:stop] = np.arange(row.shared, len(request.inputs))
            branches[number, start:stop] = branch
            places = np.r_[: row.shared, start:stop][-len(request.targets) :]
            scored.append(number * length + places)
            targets.append(np.asarray(request.targets, np.int64))
            owners.append(np.full(len(request.targets), member, np.int64))
            start = stop
    return Batch(tokens, positions, branches, *map(np.concatenate, (scored, targets, owners)))
