"""A made-up demo suite, planned and built through the stages' own `expand` and `run`.

Run as a program, `python -m tests.reporting.demo_suite FOLDER` builds it into a folder.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from deeploop.reporting.published import published
from deeploop.stage import Draft, Stage
from stages import p_sweep, report, table1, table2, table3, table4
from tests.reporting.synthetic import (
    FLOOR,
    FakePlan,
    job_of,
    training_draft,
    write_evaluation,
    write_training,
    write_vote,
)

SWEEP = (0.0, 0.25, 0.35, 0.45, 0.5, 0.6)
TABLES = (
    table1.STAGE,
    p_sweep.STAGE,
    table2.STAGE,
    table3.STAGE,
    table4.STAGE,
    report.STAGE,
)
VOTES = (1, 2, 10, 100, 1000)
PUZZLES = 40


def trainings() -> list[Draft]:
    """Return the language-model trainings of a suite shaped like the demo."""
    drafts = []
    for rule, p in (("base", 0.0), ("deeploop", 0.5)):
        for loops in (1, 3, 5):
            for seed in range(3 if loops == 3 else 2):
                groups = ["table1"] if seed < 2 else []
                groups += ["p_sweep"] if loops == 3 else []
                drafts.append(training_draft("tiny", rule, p, loops, seed, *groups))
    for p in SWEEP[1:4] + SWEEP[5:]:
        drafts += [training_draft("tiny", f"p{p:g}", p, 3, seed, "p_sweep") for seed in range(3)]
    return drafts


def evaluations() -> list[Draft]:
    """Return an evaluation for each model of Table 1's first seed."""
    return [
        Draft(name=d.name, params={}, groups=("table2",), cell=d.cell)
        for d in trainings()
        if "table1" in d.groups and d.cell["seed"] == 0
    ]


def hrm(group: str) -> list[Draft]:
    """Return two seeds of either rule."""
    return [
        Draft(
            name=f"hrm-{rule}-s{seed}",
            params={},
            groups=(group,),
            cell={"rule": rule, "seed": seed},
        )
        for rule in ("vanilla", "deeploop")
        for seed in range(2)
    ]


def build(root: Path, suite: str = "demo") -> Path:
    """Build the suite into `root` and return the report's folder."""
    drafts = {"train_lm": trainings(), "evaluate_lm": evaluations()}
    plan = FakePlan(suite, {**drafts, "train_hrm": hrm("table3"), "vote_arc": hrm("table3")})
    dice = random.Random(7)
    for draft in plan.of("train_lm"):
        easy = draft.cell["loops"] == 1 or draft.cell["p"] >= 0.45
        trains = dice.random() < (0.9 if easy else 0.25)
        loss = 2.4 + 0.4 * draft.cell["p"] + 0.1 * dice.random() if trains else FLOOR + 0.03
        write_training(root / "train_lm" / draft.name, loss)
    for draft in plan.of("evaluate_lm"):
        tasks = published().downstream.tasks
        shares = {shots: {task: 0.25 + 0.2 * dice.random() for task in tasks} for shots in (0, 1)}
        write_evaluation(root / "evaluate_lm" / draft.name, shares, n=30)
    for draft in plan.of("train_hrm"):
        write_training(root / "train_hrm" / draft.name, 0.7 + 0.2 * dice.random())
        solved = dice.randrange(8)
        ladder = {votes: min(PUZZLES, solved + step) / PUZZLES for step, votes in enumerate(VOTES)}
        write_vote(root / "vote_arc" / draft.name, ladder, PUZZLES)
    for stage in TABLES:
        _build_stage(stage, plan, suite, root)
    return root / "report" / "all"


def _build_stage(stage: Stage, plan: FakePlan, suite: str, root: Path) -> None:
    drafts = list(stage.expand(stage.section(), plan))
    plan.add(stage.name, drafts)
    module = sys.modules[f"stages.{stage.name}"]
    for draft in drafts:
        module.run(job_of(stage.name, suite, draft, root))


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
