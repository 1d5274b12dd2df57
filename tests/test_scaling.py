from __future__ import annotations

import pytest

from deeploop import scaling

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


@pytest.mark.parametrize("blocks", [12, 24])
@pytest.mark.parametrize("loops", [1, 3, 5, 7])
def test_deeploop_alpha_and_beta_are_the_papers(blocks: int, loops: int) -> None:
    scale = scaling.residual_scale("deeploop", blocks, loops)
    alpha, beta = PUBLISHED[blocks * loops]
    assert scale.alpha == pytest.approx(alpha, abs=5e-3)
    assert scale.beta == pytest.approx(beta, abs=5e-5)


@pytest.mark.parametrize("blocks", [12, 24])
@pytest.mark.parametrize("loops", [1, 3, 5, 7])
def test_deepnorm_is_the_fourth_root_and_base_is_one(blocks: int, loops: int) -> None:
    scale = scaling.residual_scale("deepnorm", blocks, loops)
    assert scale.alpha**4 == pytest.approx(2 * blocks * loops)
    assert scale.beta**-4 == pytest.approx(8 * blocks * loops)
    assert scaling.residual_scale("base", blocks, loops) == scaling.ResidualScale(1.0, 1.0)


@pytest.mark.parametrize("loops", [1, 3, 5, 7])
def test_aligned_bound_is_depth_only_for_deeploop_and_grows_with_loops_for_deepnorm(
    loops: int,
) -> None:
    deeploop = scaling.residual_scale("deeploop", 12, loops)
    deepnorm = scaling.residual_scale("deepnorm", 12, loops)
    once = scaling.residual_scale("deepnorm", 12, 1)
    assert scaling.aligned_bound(12, loops, deeploop) == pytest.approx(1 / (8 * 12))
    ratio = scaling.aligned_bound(12, loops, deepnorm) / scaling.aligned_bound(12, 1, once)
    assert ratio == pytest.approx(loops)


def test_tied_bound_lies_between_untied_and_aligned() -> None:
    scale = scaling.residual_scale("deepnorm", 12, 5)
    visits = scaling.sublayer_visits(12, 5)
    assert scaling.tied_bound(visits, scale, 1.0) == scaling.untied_bound(visits, scale)
    assert scaling.tied_bound(visits, scale, 5) == scaling.aligned_bound(12, 5, scale)


def test_threshold_runs_from_deepnorm_to_deeploop() -> None:
    assert scaling.threshold_exponent(0) == scaling.RULES["deepnorm"]
    assert scaling.threshold_exponent(1) == scaling.RULES["deeploop"]


def test_hrm_depths_are_the_papers() -> None:
    assert scaling.hrm_visits(4, 4, cycles=2, l_iterations=2) == 48
    assert scaling.hrm_gradient_visits(4, 4, l_iterations=2) == 24
    depth = scaling.hrm_gradient_depth(4, 4, l_iterations=2)
    assert depth == 12
    assert scaling.alpha(depth, 0.5) == pytest.approx(24**0.5)
    assert scaling.beta(depth, 0.5) == pytest.approx(96**-0.5)
