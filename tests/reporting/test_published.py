from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
import yaml

from deeploop.reporting.published import AVERAGE, PATH, published

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "paper" / "reference.yaml"


def test_printed_averages_are_those_of_the_eight_tasks_but_for_one_slip() -> None:
    paper = published()
    slips = []
    for backbone, table in paper.downstream.tables.items():
        for shots, rules in table.shots.items():
            for rule, rows in rules.items():
                for loops, row in rows.items():
                    if abs(fmean(row[:-1]) - row[-1]) > 0.005 + 1e-9:
                        slips.append((backbone, shots, rule, loops))
    assert slips == [("medium", 0, "base", 1)]


def test_printed_differences_are_those_of_the_cells_but_for_one_slip() -> None:
    paper = published()
    slips = []
    for backbone, rules in paper.validation_loss.values.items():
        for loops, printed in paper.validation_loss.differences[backbone].items():
            computed = round(rules["deeploop"][loops] - rules["base"][loops], 4)
            if computed != printed:
                slips.append((backbone, loops, printed, computed))
    assert slips == [("medium", 3, -0.0153, -0.0152)]
    votes = paper.arc_votes
    for budget, printed in votes.differences.items():
        computed = votes.values["deeploop"][budget] - votes.values["vanilla"][budget]
        assert computed == printed


def test_what_the_paper_does_not_give_is_none() -> None:
    paper = published()
    assert paper.loss("tiny", "base", 1) is None
    assert paper.loss("small", "base", 9) is None
    assert paper.accuracy("small", 0, "base", 7, AVERAGE) is None
    assert paper.accuracy("small", 0, "base", 1, "no_such_task") is None
    assert paper.voted("vanilla", 3) is None
    assert paper.p_sweep.fraction(0.25) is None
    assert [paper.p_sweep.fraction(p) for p in (0.3, 0.45, 0.6)] == ["none", "some", "all"]


@pytest.mark.skipif(not REFERENCE.exists(), reason="the paper's reference numbers are not here")
def test_published_equals_the_reference_cell_by_cell() -> None:
    reference = yaml.safe_load(REFERENCE.read_text())
    paper = published()
    assert paper.validation_loss.values == reference["table1_validation_loss"]["values"]
    for backbone, name in (
        ("medium", "table2_downstream_medium"),
        ("small", "table4_downstream_small"),
    ):
        for shots, rules in reference[name]["by_shots"].items():
            for rule, rows in rules.items():
                for loops, row in rows.items():
                    for task, value in row.items():
                        assert paper.accuracy(backbone, shots, rule, loops, task) == value
    arc = reference["table3_arc_voted_accuracy"]
    assert paper.arc_votes.values["vanilla"] == arc["by_votes"]["vanilla_hrm"]
    assert paper.arc_votes.values["deeploop"] == arc["by_votes"]["deeploop"]
    for key in ("seed_std_at_2_votes", "control_seeds", "arc2_published_checkpoint_at_2_votes"):
        assert getattr(paper.arc_votes, key) == arc[key]
    sweep = reference["figure6_p_sweep"]
    assert paper.p_sweep.trained_mean == sweep["trained_seed_mean_loss"]
    assert paper.p_sweep.unigram_floor == sweep["unigram_floor_nats"]
    for key in ("backbone", "loops", "step", "seeds_up_to", "budget_minutes", "gpus"):
        assert getattr(paper.p_sweep, key) == sweep[key]
    for key in ("p", "all_seeds_fail", "some_seeds_fail", "no_seed_fails"):
        assert list(getattr(paper.p_sweep, key)) == sweep[key]
    compute = reference["appendix11_compute"]
    assert paper.compute.gpu_hours == compute["gpu_hours_per_cell"]
    assert paper.compute.wall_clock_hours == compute["wall_clock_hours"]
    assert paper.compute.gpus == compute["gpus"]
    assert paper.compute.lm_matrix_gpu_hours == compute["lm_matrix_total_gpu_hours"]
    assert paper.compute.project_gpu_hours == compute["project_total_gpu_hours"]
    assert paper.compute.exploratory_gpu_hours == compute["exploratory_gpu_hours"]
    training = reference["training"]
    assert paper.training.backbones == {k: training[k] for k in ("small", "medium")}
    assert paper.training.steps == training["steps"]


def test_every_block_names_its_source() -> None:
    blocks = yaml.safe_load(PATH.read_text(encoding="utf-8"))
    for name in ("validation_loss", "arc_votes", "p_sweep", "compute", "training"):
        assert blocks[name]["source"]
    assert all(table["source"] for table in blocks["downstream"]["tables"].values())
