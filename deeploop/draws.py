"""Counter-based randomness: a draw is a function of what it is for, never of what was drawn before.

A resumed run needs no generator state, and the number of processes does not matter.
"""

from __future__ import annotations

import hashlib

import numpy as np


def draw_seed(*parts: int | str) -> int:
    """Return 63 bits that depend on `parts` alone, e.g. `draw_seed(seed, "embedding")`."""
    text = "\x1f".join(str(part) for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def uniform(seed: int, purpose: str, step: int, rows: int) -> np.ndarray:
    """Return one float64 in [0, 1) for each row of a step's global batch, shape [rows].

    Row r's value depends on (seed, purpose, step, r) only: drawing more rows changes none.
    Philox's raw bits are used because NumPy keeps those, and not its distributions, stable.
    """
    bits = np.random.Philox(key=draw_seed(seed, purpose), counter=[0, 0, 0, step])
    return (bits.random_raw(rows) >> np.uint64(11)) * 2.0**-53
