from __future__ import annotations

import pytest

from deeploop.analysis.random_stacks import expansion_remainders, perturbation, slope
from deeploop.analysis.theory_check import check

ROUNDS = (1, 2, 4, 8)


def test_what_lemma_1_leaves_out_falls_with_the_square_of_alpha() -> None:
    alphas = [2.0**power for power in range(4, 12)]
    assert slope(alphas, expansion_remainders(alphas, 64, seed=0)) == pytest.approx(-2, abs=0.02)
    # The proof's remainder is uniform in delta / alpha <= c < 1: here c = 1/2, and a constant of 1
    for alpha, remainder in zip(alphas, expansion_remainders(alphas, 64, seed=1), strict=True):
        assert remainder <= 1 / alpha**2


@pytest.mark.parametrize("decorrelated", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.5])
def test_no_change_exceeds_its_bound(p: float, decorrelated: bool) -> None:
    for seed in range(3):
        found = perturbation(p, blocks=1, loops=4, size=6, decorrelated=decorrelated, seed=seed)
        assert found["change"] <= found["bound"] <= found["aligned_bound"]
        assert 0 <= found["kappa"] <= 4 + 1e-9
        assert 0 <= found["kappa_defined"] <= 4 + 1e-9


def test_growth_with_loops_is_what_the_propositions_say() -> None:
    growths = {(g.decorrelated, g.p): g for g in check(2, 8, ROUNDS, seeds=1).growths}
    aligned_quarter, aligned_half = growths[False, 0.25], growths[False, 0.5]
    assert aligned_quarter.predicted == 1
    assert aligned_quarter.power == pytest.approx(1, abs=0.15)
    assert aligned_half.predicted == 0
    assert aligned_half.power == pytest.approx(0, abs=0.15)
    assert growths[True, 0.25].power < 0.5  # decorrelated: bounded for p = 1/4 already
    assert growths[True, 0.5].power < -0.5
    assert aligned_half.kappa[-1] == pytest.approx(8, rel=0.05)
    assert growths[True, 0.5].kappa[-1] < 2
