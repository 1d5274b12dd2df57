from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deeploop.errors import BuildError
from deeploop.reporting.alignment_table import arranged, exhibit
from deeploop.reporting.exhibits import read_exhibit
from deeploop.reporting.runs import PlacedRun
from deeploop.stage import Draft
from stages import alignment, check_theory, report, sweeps
from tests.reporting.synthetic import (
    FakePlan,
    job_of,
    training_draft,
    write_alignment,
    write_training,
)


def runs(root: Path, ends: dict[tuple[str, int], float | None]) -> list[PlacedRun]:
    placed = []
    for (rule, seed), end in ends.items():
        draft = training_draft("tiny", rule, 0.0, 3, seed)
        write_alignment(root / draft.name, end, "trained" if end else "floor")
        cell = dict(draft.cell)
        placed.append(PlacedRun(f"measure_alignment/{draft.name}", cell, root / draft.name))
    return placed


def test_differences_pair_seeds_that_train_under_both_rules(tmp_path: Path) -> None:
    ends = {("deeploop", 0): 2.5, ("deeploop", 1): 2.7, ("deeploop", 2): 2.6}
    ends |= {("base", 0): 2.0, ("base", 1): 2.0}
    found = runs(tmp_path, ends | {("base", 2): None})
    series = arranged(found)
    assert [(s.where.rule, s.where.module) for s in series] == [
        ("base", "loop"),
        ("deeploop", "loop"),
    ]
    (finding,) = exhibit(series, ()).findings
    # differences 0.5 and 0.7: mean 0.6, t(1) = 12.706, standard error 0.1
    assert "κ at the end is +0.60 against base" in finding
    assert "interval −0.67 to +1.87, 2 pairs" in finding


def test_no_common_seed_is_said(tmp_path: Path) -> None:
    found = runs(tmp_path, {("deeploop", 0): 2.5, ("base", 0): None})
    assert exhibit(arranged(found), ()).findings == (
        "tiny, R = 3: no seed trains under both rules.",
    )


def test_a_damaged_measurement_is_named(tmp_path: Path) -> None:
    (found,) = runs(tmp_path, {("base", 0): 2.0})
    (found.folder / "alignment.json").write_text('{"outcome": "trained"}')
    with pytest.raises(BuildError, match=r"alignment\.json: points: .*rebuild"):
        arranged([found])


def test_all_three_exhibits_enter_the_report(tmp_path: Path) -> None:
    trainings = [
        Draft(
            name=f"tiny-a{a:g}-b{b:g}-r3-s{seed}",
            params={},
            groups=("alpha_or_beta_alone",),
            cell={
                "backbone": "tiny",
                "scaling": f"a{a:g}-b{b:g}",
                "p": None,
                "alpha_p": a,
                "beta_p": b,
                "loops": 3,
                "seed": seed,
            },
        )
        for a, b in ((0.5, 0.0), (0.0, 0.5))
        for seed in range(3)
    ]
    for draft in trainings:
        loss = 2.3 if draft.cell["alpha_p"] else 3.4
        write_training(tmp_path / "train_lm" / draft.name, loss)
    measured = [training_draft("tiny", rule, 0.0, 3, 0) for rule in ("base", "deeploop")]
    for draft in measured:
        write_alignment(tmp_path / "measure_alignment" / draft.name, 2.0)
    plan = FakePlan("demo", {"train_lm": trainings, "measure_alignment": measured})
    sections: dict[Any, dict[str, Any]] = {
        sweeps: {},
        alignment: {},
        check_theory: {"hidden_size": 6, "loops": [1, 2], "seeds": 1},
        report: {},
    }
    for stage, settings in sections.items():
        (draft,) = stage.expand(stage.STAGE.section(**settings), plan)
        plan.add(stage.STAGE.name, [draft])
        stage.run(job_of(stage.STAGE.name, "demo", draft, tmp_path))
    (finding,) = read_exhibit(tmp_path / "sweeps" / "all" / "sweeps.json").findings
    assert "0 of 3 with tiny, R = 3, pα = 0, pβ = 0.5; 3 of 3 with tiny" in finding
    page = (tmp_path / "report" / "all" / "index.html").read_text()
    for title in ("Beyond the paper", "Visit alignment", "The theory, checked numerically"):
        assert title in page
    names = {path.name for path in (tmp_path / "report" / "all" / "figures").iterdir()}
    assert {"alignment-kappa-tiny-R-3.svg", "check_theory-growth.svg"} <= names
