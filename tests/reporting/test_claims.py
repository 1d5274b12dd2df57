"""Verdicts on the paper's statements: on its own numbers, and on made-up ones."""

from __future__ import annotations

import pytest

from deeploop.reporting.cells import Cell, Sample
from deeploop.reporting.claims import Claim, claims
from deeploop.reporting.evidence import Evidence, evidence_of, published_evidence
from deeploop.reporting.judging import within
from deeploop.reporting.published import published
from deeploop.reporting.slips import slips


def judged(build: Evidence) -> dict[str, Claim]:
    return {claim.name: claim for claim in claims(build, published_evidence(published()))}


def losses(backbone: str, base: list[float], deeploop: list[float], loops: int = 3) -> list[Cell]:
    return [
        Cell(
            where={"backbone": backbone, "scaling": rule, "loops": loops},
            samples=tuple(Sample(run="r", seed=s, value=v) for s, v in enumerate(values)),
        )
        for rule, values in (("base", base), ("deeploop", deeploop))
    ]


def test_the_published_numbers_bear_out_all_but_one_statement() -> None:
    verdicts = {name: claim.published.verdict for name, claim in judged(Evidence()).items()}
    assert verdicts.pop("average-gap-widens") == "fails"  # +1.06, then +0.93
    assert verdicts.pop("seed-spread") == "undecided"  # printed, but not its seeds
    assert len(verdicts) == 11
    assert set(verdicts.values()) == {"holds"}


def test_without_runs_nothing_is_decided_and_what_is_missing_is_named() -> None:
    found = judged(Evidence())
    assert {claim.build.verdict for claim in found.values()} == {"undecided"}
    assert all(claim.build.why for claim in found.values())
    assert "medium R = 3 or 5" in found["gap-widens"].build.why


def test_one_seed_decides_by_its_number_and_several_by_their_interval() -> None:
    def better(base: list[float], deeploop: list[float]) -> tuple[str, str]:
        found = judged(evidence_of(losses("small", base, deeploop)))["better-when-looped"].build
        return found.verdict, found.why

    assert better([2.8], [2.7])[0] == "holds"
    assert better([2.7], [2.8])[0] == "fails"
    assert better([2.8, 2.9, 3.0], [2.70, 2.81, 2.89])[0] == "holds"
    assert better([2.8, 2.9, 3.0], [2.91, 2.99, 3.11])[0] == "fails"
    verdict, why = better([2.8, 2.9, 3.0], [2.6, 3.1, 2.8])
    assert (verdict, "3 seeds does not decide" in why) == ("undecided", True)


def test_a_seed_that_did_not_train_is_no_evidence_of_a_difference() -> None:
    cells = losses("small", [2.8], [2.7])
    stuck = Sample(run="r", seed=0, value=7.6, outcome="floor")
    cells[0] = Cell(where=cells[0].where, samples=(stuck,))
    assert judged(evidence_of(cells))["better-when-looped"].build.verdict == "undecided"


def test_the_boundary_needs_three_seeds_to_hold_and_one_to_fail() -> None:
    def boundary(trained: dict[float, int], seeds: int) -> str:
        cells = [
            Cell(
                where={"p": p},
                samples=tuple(
                    Sample(run="r", seed=s, value=3.7, outcome="trained" if s < count else "floor")
                    for s in range(seeds)
                ),
            )
            for p, count in trained.items()
        ]
        return judged(evidence_of(cells))["p-boundary"].build.verdict

    three = dict(zip(published().p_sweep.p, (0, 0, 0, 2, 3, 3, 3), strict=True))
    assert boundary(three, 3) == "holds"
    assert boundary(three | {0.5: 2}, 3) == "fails"
    two = dict(zip(published().p_sweep.p, (0, 0, 0, 1, 2, 2, 2), strict=True))
    assert boundary(two, 2) == "undecided"


def test_the_bounds_are_strict() -> None:
    assert within("x", [0.0], -1.0, 0.0, 2).verdict == "fails"
    assert within("x", [], -1.0, 0.0, 2).verdict == "undecided"
    interval = within("x", [1.0, 2.0, 3.0], 0.0, 9.0, 2)
    assert "−0.48 to +4.48" in interval.numbers  # 2 ± 4.303 / √3


@pytest.mark.parametrize(
    ("printed", "computed"),
    [
        ("50.86", "50.8663"),
        ("−0.0153", "−0.0152"),
        ("+0.15", "+0.16"),
        ("the gap widens through R = 7", "+0.43, then +1.06, then +0.93"),
        ("2.0 s a step in the p-sweep", "0.79 s a step in the cost table"),
        ("+3.25 is roughly a 6σ effect", "4.6σ"),
    ],
)
def test_the_papers_slips_are_found(printed: str, computed: str) -> None:
    assert (printed, computed) in {(slip.printed, slip.computed) for slip in slips(published())}


def test_no_other_number_is_called_a_slip() -> None:
    assert len(slips(published())) == 6
