"""A suite of params.yaml as it stands in a store once its runs are done, with made-up numbers.

Plan, keys, manifests and store are the real ones; only what the runs would have put out is made up.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from deeploop.fileio import dump_json
from deeploop.plan import Plan, Run, load_plan
from deeploop.project import store_root
from deeploop.reporting.artifacts import write_exhibit
from deeploop.reporting.exhibits import Exhibit
from deeploop.reporting.published import published
from deeploop.store import Entry, Outputs, key_of, measure, publish
from tests.reporting.synthetic import (
    FLOOR,
    write_alignment,
    write_evaluation,
    write_training,
    write_vote,
)

ROOT = Path(__file__).resolve().parents[2]
VOTES = (1, 2, 10, 100, 1000)


def make_project(root: Path, suite: str) -> Plan:
    """Return a suite's plan in a project folder that shares this one's code."""
    root.mkdir(parents=True, exist_ok=True)
    for name in ("stages", "reports"):
        (root / name).symlink_to(ROOT / name)
    (root / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    return load_plan(root, suite)


def put(root: Path, run: Run, upstream: list[Outputs], steps: int) -> Outputs:
    """Put a finished run into the store, and show it as a build would."""
    entry = Entry(store_root(root), run.stage, key_of(run.spec, upstream))
    entry.outputs_folder.mkdir(parents=True)
    _write(run, entry.outputs_folder, steps)
    outputs = measure(entry.outputs_folder)
    (entry.folder / "manifest.json").write_text(dump_json({"outputs": outputs}))
    record = {
        "seconds": 60.0,
        "cpu_seconds": 30.0,
        "gpu_hours": 0.5,
        "git_commit": "0123456789abcdef",
        "libraries": {"torch": "2.13.0"},
        "python": "3.11.7",
        "host": "node",
        "code": "c0de",
        "finished": "2026-01-01T00:00:00+0000",
    }
    (entry.folder / "provenance.json").write_text(dump_json(record))
    publish(root, run, entry, outputs, upstream)
    rate = {"step": 1, "tokens_per_second": 1000.0, "flops_per_second": 4 * 98.94e12}
    (root / run.folder / "telemetry.jsonl").write_text(json.dumps(rate) + "\n")
    return outputs


def fill(
    root: Path, plan: Plan, wanted: Callable[[Run], bool] = lambda run: True, steps: int = 450
) -> None:
    """Put every wanted run whose inputs are there into the store; tables and report are not."""
    known: dict[Run, Outputs] = {}
    for run in plan:
        made = run.declaration.local and not run.stage.startswith(("build", "vote", "fetch"))
        if not made and wanted(run) and all(up in known for up in run.inputs):
            known[run] = put(root, run, [known[up] for up in run.inputs], steps)


def _write(run: Run, folder: Path, steps: int) -> None:
    dice = random.Random(run.id)
    if run.stage == "train_lm":
        stuck = run.draft.cell["alpha_p"] < 0.45 and "p_sweep" in run.draft.groups
        write_training(folder, FLOOR if stuck else 2.5 + 0.3 * dice.random(), length=steps)
    elif run.stage in ("train_hrm", "train_arc_lm"):
        write_training(folder, 0.9 + 0.1 * dice.random(), length=steps)
    elif run.stage == "evaluate_lm":
        tasks = published().downstream.tasks
        shares = {shots: {task: 0.3 + 0.3 * dice.random() for task in tasks} for shots in (0, 1)}
        write_evaluation(folder, shares, n=500)
    elif run.stage == "measure_alignment":
        write_alignment(folder, 1 + dice.random())
    elif run.stage == "hrm_harness_check":
        found = {"percent": {"1": 4.0, "2": 5.0}, "votes": 2, "found": 5.0, "expected": 5.0}
        (folder / "metrics.json").write_text(dump_json({"outcome": "passed", **found}))
    elif run.stage == "check_theory":
        shown = Exhibit(name=run.stage, title="The theory", source="made up", about="")
        write_exhibit(shown, folder)
    elif run.stage == "vote_arc":
        solved = dice.randrange(100, 140)
        write_vote(folder, {v: (solved + 9 * i) / 400 for i, v in enumerate(VOTES)}, 400)
    else:
        (folder / "data.bin").write_bytes(run.id.encode())
