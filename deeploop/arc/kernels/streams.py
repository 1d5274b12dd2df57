"""The two random streams: NumPy's legacy MT19937, draw for draw, and counter-based Philox.

MT19937 state is a `uint32[1249]`: 624 words, 624 outputs, and the number of outputs drawn.
"""

from __future__ import annotations

import numpy as np

from deeploop.arc.kernels.compiled import compiled

WORDS = 624
MIDDLE = 397
POSITION = 2 * WORDS


@compiled
def refill(state: np.ndarray) -> None:
    """Advance all 624 words of MT19937 (Matsumoto and Nishimura, 1998)."""
    for k in range(WORDS - MIDDLE):  # two loops: each can be vectorised
        state[k] = twisted(state[k], state[k + 1], state[k + MIDDLE])
    for k in range(WORDS - MIDDLE, WORDS - 1):
        state[k] = twisted(state[k], state[k + 1], state[k + MIDDLE - WORDS])
    state[WORDS - 1] = twisted(state[WORDS - 1], state[0], state[MIDDLE - 1])
    for k in range(WORDS):
        state[WORDS + k] = tempered(state[k])
    state[POSITION] = 0


@compiled
def twisted(word: np.uint32, following: np.uint32, far: np.uint32) -> np.uint32:
    """Return what replaces a word of MT19937's state."""
    joined = (word & np.uint32(0x80000000)) | (following & np.uint32(0x7FFFFFFF))
    odd = np.uint32(0) - (joined & np.uint32(1))
    return far ^ (joined >> np.uint32(1)) ^ (odd & np.uint32(0x9908B0DF))


@compiled
def tempered(word: np.uint32) -> np.uint32:
    """Return the output for a word of MT19937's state."""
    word ^= word >> np.uint32(11)
    word ^= (word << np.uint32(7)) & np.uint32(0x9D2C5680)
    word ^= (word << np.uint32(15)) & np.uint32(0xEFC60000)
    return word ^ (word >> np.uint32(18))


@compiled
def next_word(state: np.ndarray) -> np.uint32:
    """Return the next 32-bit word of MT19937."""
    position = state[POSITION]
    if position >= WORDS:
        refill(state)
        position = np.uint32(0)
    state[POSITION] = position + np.uint32(1)
    return state[WORDS + position]


@compiled
def below(state: np.ndarray, bound: int) -> np.int64:
    """Return an integer in [0, bound) as `numpy.random.randint` and `shuffle` draw it.

    Masked rejection, one word a try; a bound of 1 draws nothing.
    """
    largest = np.uint32(bound - 1)
    if largest == np.uint32(0):
        return np.int64(0)
    mask = largest | (largest >> np.uint32(1))
    mask |= mask >> np.uint32(2)
    mask |= mask >> np.uint32(4)
    mask |= mask >> np.uint32(8)
    mask |= mask >> np.uint32(16)
    while True:
        word = next_word(state) & mask
        if word <= largest:
            return np.int64(word)


@compiled
def shuffled(state: np.ndarray, count: int) -> np.ndarray:
    """Return 0..count-1 in the order that `numpy.random.shuffle` leaves a list in."""
    order = np.arange(count)
    for last in range(count - 1, 0, -1):
        other = below(state, last + 1)
        order[last], order[other] = order[other], order[last]
    return order


@compiled
def philox(key: np.uint64, a: int, b: int, c: int, d: int) -> tuple[np.uint64, ...]:
    """Return the four 32-bit words, as `uint64`, of Philox4x32-10 (Salmon et al., 2011).

    `key` is a `uint64`; the counter words `a` to `d` are integers below 2^32.
    """
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    key0, key1 = key & low, key >> half
    x0, x1, x2, x3 = np.uint64(a), np.uint64(b), np.uint64(c), np.uint64(d)
    for _ in range(10):
        left = np.uint64(0xD2511F53) * x0
        right = np.uint64(0xCD9E8D57) * x2
        x0, x1, x2, x3 = (
            (right >> half) ^ x1 ^ key0,
            right & low,
            (left >> half) ^ x3 ^ key1,
            left & low,
        )
        key0 = (key0 + np.uint64(0x9E3779B9)) & low
        key1 = (key1 + np.uint64(0xBB67AE85)) & low
    return x0, x1, x2, x3
