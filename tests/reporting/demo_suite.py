"""A made-up demo suite, planned and built through the stages' own `expand` and `run`.

Run as a program, `python -m tests.reporting.demo_suite FOLDER` builds it into a folder.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from deeploop.stage import Draft, Stage
from stages import p_sweep, report, table1, training_curves
from tests.reporting.synthetic import FLOOR, FakePlan, job_of, training_draft, write_training

SWEEP = (0.0, 0.25, 0.35, 0.45, 0.5, 0.6)
TABLES = (table1.STAGE, p_sweep.STAGE, training_curves.STAGE, report.STAGE)


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


def build(root: Path, suite: str = "demo") -> Path:
    """Build the suite into `root` and return the report's folder."""
    plan = FakePlan(suite, {"train_lm": trainings()})
    dice = random.Random(7)
    for draft in plan.of("train_lm"):
        easy = draft.cell["loops"] == 1 or draft.cell["p"] >= 0.45
        trains = dice.random() < (0.9 if easy else 0.25)
        loss = 2.4 + 0.4 * draft.cell["p"] + 0.1 * dice.random() if trains else FLOOR + 0.03
        write_training(root / "train_lm" / draft.name, loss)
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
