from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from deeploop.evaluation.packing import Batch, Request, fitted, pack

tokens = st.lists(st.integers(1, 3), min_size=1, max_size=8)
pairs = st.lists(st.tuples(tokens, tokens), min_size=1, max_size=12)


def _seen_from(batch: Batch, row: int, place: int) -> list[int]:
    """Return the tokens that a place sees under the rule of branches, in order."""
    own = batch.branches[row, place]
    return [
        int(batch.tokens[row, other])
        for other in range(place + 1)
        if batch.branches[row, other] in (0, own)
    ]


@settings(max_examples=200, deadline=None)
@given(pairs, st.integers(1, 60))
def test_every_target_is_predicted_from_its_own_sequence(
    encoded: list[tuple[list[int], list[int]]], batch_tokens: int
) -> None:
    requests = [Request((a + b)[:-1], b) for a, b in encoded]
    found: dict[int, list[int]] = {index: [] for index in range(len(requests))}
    for batch in pack(requests, batch_tokens):
        rows, length = batch.tokens.shape
        assert rows == 1 or rows * length <= batch_tokens
        for flat, target, owner in zip(batch.scored, batch.targets, batch.owners, strict=True):
            row, place = divmod(int(flat), length)
            request = requests[owner]
            position = len(request.inputs) - len(request.targets) + len(found[owner])
            assert _seen_from(batch, row, place) == request.inputs[: position + 1]
            assert batch.positions[row, place] == position
            found[owner].append(int(target))
    assert [found[index] for index in range(len(requests))] == [r.targets for r in requests]


def test_choices_of_a_question_share_one_front() -> None:
    question, answers = list(range(1, 21)), [[31, 32], [33], [31, 34, 35], [36, 37, 38]]
    (batch,) = pack([Request((question + a)[:-1], a) for a in answers], 1000)
    assert batch.tokens.shape == (1, 20 + 1 + 0 + 2 + 2)
    assert (batch.branches[0] == 0).sum() == 20


def test_unrelated_requests_are_not_joined() -> None:
    requests = [Request([1, *[n] * 20], [n]) for n in range(2, 6)]
    batches = pack(requests, 10_000)
    assert [batch.tokens.shape for batch in batches] == [(4, 21)]
    assert not batches[0].branched


def test_what_does_not_fit_is_cut_from_the_left_as_the_harness_does() -> None:
    context, continuation = list(range(100)), [100, 101, 102]
    (request,) = fitted(context, continuation, window=10)
    assert request.inputs == (context + continuation)[-(10 + 1) :][:-1]
    assert request.targets == continuation


def test_a_continuation_longer_than_the_window_is_scored_in_pieces() -> None:
    whole = list(range(30))
    pieces = fitted(whole[:2], whole[2:], window=8)
    assert [token for piece in pieces for token in piece.targets] == whole[2:]
    for piece in pieces:
        assert len(piece.inputs) <= 8
        assert piece.inputs[-1] + 1 == piece.targets[-1]
        assert list(piece.inputs) == list(range(piece.inputs[0], piece.inputs[-1] + 1))
