from __future__ import annotations

import numpy as np
import pytest

from deeploop.arc.kernels.augmentation import draw_mt19937, draw_philox
from deeploop.arc.kernels.streams import below, philox, shuffled
from deeploop.arc.plan import mt19937_state


@pytest.mark.parametrize("seed", [0, 42, 2**32 - 1])
def test_draws_are_numpys_global_generators_word_for_word(seed: int) -> None:
    state, theirs = mt19937_state(seed), np.random.RandomState(seed)
    for count in (400, 1, 10, 2):
        order = list(range(count))
        theirs.shuffle(order)
        assert shuffled(state, count).tolist() == order
    colours = np.empty(10, np.uint8)
    for _ in range(200):
        assert draw_mt19937(state, colours) == theirs.randint(0, 8)
        assert colours[1:].tolist() == theirs.permutation(np.arange(1, 10, dtype=np.uint8)).tolist()
        for bound in (1, 2, 7, 30):
            assert below(state, bound) == theirs.randint(0, bound)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # known answers of Random123, the authors' library
        ((0, 0, 0, 0), 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0_A4093822,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_answers(
    counter: tuple[int, int, int, int], key: int, words: str
) -> None:
    found = philox(np.uint64(key), *counter)
    assert " ".join(f"{int(word):08x}" for word in found) == words


def test_philox_trials_cover_all_symmetries_and_permutations_evenly() -> None:
    colours = np.empty(10, np.uint8)
    symmetries, places = np.zeros(8, int), np.zeros((10, 10), int)
    for trial in range(8000):
        symmetries[draw_philox(np.uint64(7), trial, colours)] += 1
        assert sorted(colours) == list(range(10)) and colours[0] == 0
        places[np.arange(10), colours] += 1
    assert (abs(symmetries - 1000) < 150).all()
    assert (abs(places[1:, 1:] - 8000 / 9) < 150).all()
