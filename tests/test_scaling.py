from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deeploop import scaling
from deeploop.cli import main
from deeploop.errors import UserError
from deeploop.scaling import HierarchicalLoops, ScalingFamily

# alpha and beta of DeepLoop (p = 1/2) as the paper's section 3 gives them, by unrolled depth N
PUBLISHED = {
    12: (4.90, 0.1021),
    36: (8.49, 0.0589),
    60: (10.95, 0.0456),
    84: (12.96, 0.0386),
    24: (6.93, 0.0722),
    72: (12.00, 0.0417),
    120: (15.49, 0.0323),
    168: (18.33, 0.0273),
}
BASE, DEEPNORM, DEEPLOOP = (ScalingFamily.of(rule) for rule in scaling.RULES)

counts = st.integers(1, 64)
exponents = st.floats(0, 1.5)
CELLS = [(blocks, loops) for blocks in (12, 24) for loops in (1, 3, 5, 7)]


@pytest.mark.parametrize(("blocks", "loops"), CELLS)
def test_alpha_and_beta_are_the_papers(blocks: int, loops: int) -> None:
    depth = blocks * loops
    scale = scaling.residual_scale("deeploop", blocks, loops)
    alpha, beta = PUBLISHED[depth]
    assert scale.alpha == pytest.approx(alpha, abs=5e-3)
    assert scale.beta == pytest.approx(beta, abs=5e-5)
    assert scale.alpha**2 == pytest.approx(2 * depth, rel=1e-12)
    assert scale.beta**-2 == pytest.approx(8 * depth, rel=1e-12)
    assert scale.ratio == pytest.approx(1 / (4 * depth), rel=1e-12)  # Eq. 6
    deepnorm = scaling.residual_scale("deepnorm", blocks, loops)
    assert deepnorm.alpha**4 == pytest.approx(2 * depth, rel=1e-12)
    assert deepnorm.beta**-4 == pytest.approx(8 * depth, rel=1e-12)
    assert deepnorm.ratio == pytest.approx(1 / (2 * depth**0.5), rel=1e-12)  # Eq. 3
    assert scaling.residual_scale("base", blocks, loops) == scaling.ResidualScale(1.0, 1.0)


@pytest.mark.parametrize(("blocks", "loops"), CELLS)
def test_bounds_are_exact_where_they_can_be(blocks: int, loops: int) -> None:
    assert DEEPNORM.untied_bound(blocks, loops) == 0.5  # section 2.2
    assert DEEPNORM.aligned_bound(blocks, loops) == loops / 2
    assert DEEPLOOP.aligned_bound(blocks, loops) == 1 / (8 * blocks)  # section 3.4
    assert DEEPLOOP.untied_bound(blocks, loops) == 1 / (8 * blocks * loops)
    assert BASE.aligned_bound(blocks, loops) == 2 * blocks * loops**2


@given(counts, counts, exponents)
def test_bounds_are_those_of_the_ratio(blocks: int, loops: int, p: float) -> None:
    family, visits = ScalingFamily.of(p), scaling.sublayer_visits(blocks, loops)
    ratio = family.scale(blocks * loops).ratio
    assert family.untied_bound(blocks, loops) == pytest.approx(visits * ratio**2, rel=1e-12)
    assert family.ratio_squared(blocks * loops) == pytest.approx(ratio**2, rel=1e-12)


@given(exponents, exponents, st.floats(0.5, 16), st.floats(0.5, 16), counts)
def test_separate_exponents_and_constants(
    a: float, b: float, c: float, d: float, depth: int
) -> None:
    family = ScalingFamily(a, b, c, d)
    scale = family.scale(depth)
    assert scale.alpha == pytest.approx((c * depth) ** a, rel=1e-12)
    assert scale.beta == pytest.approx((d * depth) ** -b, rel=1e-12)
    assert family.ratio_squared(depth) == pytest.approx(scale.ratio**2, rel=1e-11)


@given(counts, counts, exponents, st.floats(0, 1))
def test_tied_bound_lies_between_untied_and_aligned_and_grows_with_kappa(
    blocks: int, loops: int, p: float, share: float
) -> None:
    family, kappa = ScalingFamily.of(p), 1 + share * (loops - 1)
    tied = family.tied_bound(blocks, loops, kappa)
    assert family.untied_bound(blocks, loops) <= tied <= family.aligned_bound(blocks, loops)


@given(counts, counts, exponents, st.floats(0.01, 0.5))
def test_a_larger_exponent_never_raises_the_bound(
    blocks: int, loops: int, p: float, more: float
) -> None:
    larger = ScalingFamily.of(p + more).aligned_bound(blocks, loops)
    assert larger < ScalingFamily.of(p).aligned_bound(blocks, loops)


@given(st.floats(0, 1), st.floats(-0.2, 0.2), counts)
def test_the_threshold_is_where_growth_with_loops_ends(
    gamma: float, off: float, blocks: int
) -> None:
    p = max(0.0, scaling.threshold_exponent(gamma) + off)
    family, loops = ScalingFamily.of(p), np.array([2.0**10, 2.0**20])
    first, later = family.tied_bound(np.full(2, float(blocks)), loops, loops**gamma)
    grows = 1 + gamma - 4 * p  # the proof of the proposition: the power of N
    assert later / first == pytest.approx(2 ** (10 * grows), rel=1e-9)
    if abs(off) > 0.01 and p > 0:
        assert (later > first) == (off < 0)


def test_thresholds_run_from_deepnorm_to_deeploop() -> None:
    assert scaling.threshold_exponent(0) == scaling.RULES["deepnorm"]
    assert scaling.threshold_exponent(1) == scaling.RULES["deeploop"]
    assert scaling.hrm_threshold_exponent(1) == 0.5
    assert scaling.hrm_threshold_exponent(0) == 0.25
    assert scaling.hrm_threshold_exponent(1, grown="blocks") == 0.25


def test_arrays_give_what_numbers_give() -> None:
    loops = np.arange(1.0, 9.0)
    together = DEEPNORM.aligned_bound(np.full(8, 12.0), loops)
    assert together.tolist() == [DEEPNORM.aligned_bound(12, r) for r in range(1, 9)]
    with pytest.raises(UserError, match="loops"):
        DEEPNORM.aligned_bound(np.full(2, 12.0), np.array([1.0, 0.0]))


def test_hrm_counts_are_the_papers() -> None:
    loops = HierarchicalLoops(4, 4, l_iterations=2, cycles=2)
    assert (loops.visits, loops.gradient_visits, loops.gradient_depth) == (48, 24, 12)
    assert loops.rounds == {"H": 1, "L": 2}
    assert loops.sublayers == {"H": 8, "L": 8}
    scale = DEEPLOOP.scale(loops.gradient_depth)
    assert scale.alpha == pytest.approx(24**0.5, rel=1e-12)
    assert scale.beta == pytest.approx(96**-0.5, rel=1e-12)


@given(counts, counts, counts, st.floats(0, 1))
def test_hrm_aggregate_lies_in_the_papers_interval(h: int, l: int, c: int, share: float) -> None:  # noqa: E741
    loops, kappa = HierarchicalLoops(h, l, c), share * c
    least, largest = loops.kappa_bar_interval
    assert least - 1e-12 <= loops.kappa_bar(kappa) <= largest + 1e-9
    assert loops.kappa_bar(0) == least
    visits, sublayers = loops.gradient_visits, 2 * l
    assert largest == pytest.approx(float(1 + Fraction(sublayers * c * (c - 1), visits)), rel=1e-12)
    assert loops.kappa_bar(c) == pytest.approx(largest, rel=1e-12)
    # One scaling for both modules: Eq. 18 becomes Eq. 19
    both = {"H": DEEPLOOP, "L": DEEPLOOP}
    bound = loops.bound(both, {"H": 1.0, "L": kappa})  # type: ignore[arg-type]
    ratio = DEEPLOOP.ratio_squared(loops.gradient_depth)
    assert bound == pytest.approx(visits * loops.kappa_bar(kappa) * ratio, rel=1e-12)


def test_hrm_modules_are_scaled_alone() -> None:
    loops = HierarchicalLoops(4, 4, 2)
    kappa = {"H": 1.0, "L": 2.0}
    bound = loops.bound({"H": DEEPNORM, "L": DEEPLOOP}, kappa)  # type: ignore[arg-type]
    assert bound == pytest.approx(8 / (4 * 12) + 8 * 2 * 2 / (16 * 144), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scaling.residual_scale("deeploop", 12, 0), "loops is 0"),
        (lambda: scaling.residual_scale("deeploop", 0, 3), "blocks is 0"),
        (lambda: scaling.residual_scale("deeplop", 12, 3), "did you mean 'deeploop'"),
        (lambda: scaling.residual_scale("x", 12, 3), "base, deepnorm, deeploop"),
        (lambda: scaling.residual_scale(-0.5, 12, 3), "alpha_exponent is -0.5"),
        (lambda: scaling.residual_scale(float("nan"), 12, 3), "alpha_exponent is nan"),
        (lambda: scaling.residual_scale(float("inf"), 12, 3), "alpha_exponent is inf"),
        (lambda: ScalingFamily(0.5, 0.5, alpha_constant=0), "c and d are positive"),
        (lambda: DEEPLOOP.tied_bound(12, 3, 3.5), "kappa is 3.5: it is at most R"),
        (lambda: DEEPLOOP.tied_bound(12, 3, -1), "at least 0"),
        (lambda: scaling.threshold_exponent(1.5), "gamma is 1.5"),
        (lambda: HierarchicalLoops(4, 0, 2), "l_blocks is 0"),
        (lambda: HierarchicalLoops(4, 4, 2).kappa_bar(3), "kappa_L is 3"),
    ],
)
def test_wrong_inputs_are_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match=message):
        call()


def test_the_command_prints_all_rules_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "--blocks", "12", "--loops", "3", "--json"]) == 0
    rules = json.loads(capsys.readouterr().out)["rules"]
    assert list(rules) == ["base", "deepnorm", "deeploop"]
    scale = scaling.residual_scale("deeploop", 12, 3)
    assert rules["deeploop"] == {
        "alpha": scale.alpha,
        "beta": scale.beta,
        "ratio": scale.ratio,
        "untied_bound": 1 / 288,
        "aligned_bound": 1 / 96,
    }
    assert main(["scaling", "--blocks", "12", "--loops", "3", "--p", "0.45"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["rule", *rules, "p=0.45"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--loops", "0"], "deeploop: loops is 0: it is at least 1\n"),
        (["--p", "-0.5"], "deeploop: alpha_exponent is -0.5: an exponent is finite, from 0\n"),
        (["--p", "400"], "deeploop: p = 400 at N = 36 is beyond the range of numbers\n"),
    ],
)
def test_the_command_says_what_is_wrong(
    change: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scaling", "--blocks", "12", "--loops", "3", *change]) == 2
    assert capsys.readouterr() == ("", message)
