"""Print every run of a suite with its resources and estimated GPU-hours.

Estimates of language-model trainings come from the paper's cost table and budgets; those marked
`~` are ours.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeploop.project import find_root

if TYPE_CHECKING:
    from deeploop.plan import Plan, Run
    from deeploop.text.budget import Budget

HELP = "print every run of a suite, its resources and GPU-hours"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--suite", help="suite in params.yaml; its default when absent")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--gpus",
        type=int,
        nargs="+",
        default=[8, 32, 128],
        metavar="N",
        help="say how long the jobs take on so many GPUs (default: 8 32 128)",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="DVC's first stage: write specifications, drop manifests that no longer hold",
    )


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.plan import load_plan

    root = find_root()
    if args.write:
        return _write(root, args.suite)
    plan = load_plan(root, args.suite)
    if args.json:
        print(json.dumps(as_json(plan), indent=1))
    else:
        print(as_text(plan, args.gpus))
    return 0


def totals(plan: Plan) -> dict[str, float]:
    """Return the number of runs and the GPU-hours in all and by the paper's experiments."""

    def hours(*stages: str, group: str | None = None) -> float:
        runs = (run for stage in stages for run in plan.of(stage))
        return sum(r.resources.gpu_hours for r in runs if group is None or group in r.draft.groups)

    return {
        "runs": len(plan),
        "gpu_hours": sum(run.resources.gpu_hours for run in plan),
        "lm_matrix_gpu_hours": hours("train_lm", group="table1"),
        "p_sweep_gpu_hours": hours("train_lm", group="p_sweep"),
        "hrm_gpu_hours": hours("train_hrm", "predict_arc"),
    }


def as_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain values."""
    return {"suite": plan.suite, "runs": [_run(run) for run in plan], "totals": totals(plan)}


def _run(run: Run) -> dict[str, Any]:
    budget = text_budget_of(run)
    return {
        "stage": run.stage,
        "run": run.name,
        "aliases": list(run.aliases),
        "gpus": run.resources.gpus,
        "nodes": run.resources.nodes,
        "gpu_hours": run.resources.gpu_hours,
        "estimate": run.resources.estimate,
        "inputs": [up.id for up in run.inputs],
        **({"text_budget": asdict(budget)} if budget else {}),
    }


def text_budget_of(run: Run) -> Budget | None:
    """Return what preparing a corpus costs, when the run is one of declared size."""
    from deeploop.text.budget import corpus_budget

    if run.stage != "tokenize":
        return None
    return corpus_budget(run.spec["params"], run.draft.execution)


def trained_budget_of(plan: Plan, run: Run) -> Budget | None:
    """Return what it costs to prepare as many tokens as the longest training on a corpus reads."""
    from deeploop.text.budget import text_budget

    params = [r.spec["params"] for r in plan.of("train_lm") if run in r.inputs]
    read = [
        p["training"]["steps"]
        * p["training"]["recipe"]["batch_sequences"]
        * p["model"]["backbone"]["context_length"]
        for p in params
    ]
    how = run.draft.execution
    return text_budget(max(read), how["backend"], how["workers"]) if read else None


def as_text(plan: Plan, gpus: Sequence[int] = ()) -> str:
    """Return the plan as a table."""
    rows = [("stage", "run", "GPUs", "nodes", "GPU-hours", "inputs")]
    for run in plan:
        needs = run.resources
        mark = "~" if needs.gpu_hours and needs.estimate != "paper" else ""
        inputs = run.inputs[0].id if len(run.inputs) == 1 else str(len(run.inputs) or "")
        names = " = ".join((run.name, *run.aliases))
        cost = f"{mark}{needs.gpu_hours:,.1f}" if needs.gpu_hours else ""
        rows.append((run.stage, names, str(needs.gpus or ""), str(needs.nodes), cost, inputs))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join((f"suite {plan.suite}", *lines, *_summary(plan), *_jobs(plan, gpus)))


def _jobs(plan: Plan, gpus: Sequence[int]) -> list[str]:
    """Return what a cluster is asked for: jobs, wall-clock, disk."""
    from deeploop.cluster.schedule import kinds, wall_hours

    runs = [run for run in plan if not run.declaration.local]
    lines = [f"on Slurm: {len(runs)} jobs; {len(plan) - len(runs)} runs where Snakemake runs"]
    lines += [f"  {kind}" for kind in kinds(runs)]
    if any(run.resources.gpus for run in plan):
        hours = {number: wall_hours(list(plan), number) for number in gpus}
        lines += [
            f"  on {number} GPUs: " + (f"{h / 24:,.1f} days" if h else "a job asks for more")
            for number, h in hours.items()
        ]
        lines.append("  (by the estimates of jobs with GPUs; without waiting in the queue)")
    if disk := sum(training_bytes(run) for run in plan):
        size = f"{disk / 1e9:,.0f} GB" if disk > 1e9 else f"{disk / 1e6:,.1f} MB"
        lines.append(f"  language models on disk, weights and checkpoints: up to {size}")
    return lines


def training_bytes(run: Run) -> int:
    """Return what a language model's training keeps on disk at most: weights and two checkpoints.

    A checkpoint has the weights and two moments of Adam, all in fp32.
    """
    from deeploop.nn.config import GPTConfig

    if run.stage != "train_lm":
        return 0
    backbone = GPTConfig.model_validate(run.spec["params"]["model"]).backbone
    width = backbone.hidden_size
    block = 4 * width * width + 3 * width * backbone.ffn_width
    weights = backbone.layers * block + backbone.vocab_size * width
    snapshots = len(run.spec["params"]["training"]["snapshot_steps"])
    return 4 * weights * (1 + snapshots + 2 * 3)


def _summary(plan: Plan) -> list[str]:
    sums = totals(plan)
    lines = [f"{sums['runs']:.0f} runs, {sums['gpu_hours']:,.0f} GPU-hours"]
    for label, key in (
        ("language-model matrix", "lm_matrix_gpu_hours"),
        ("p-sweep", "p_sweep_gpu_hours"),
        ("HRM", "hrm_gpu_hours"),
    ):
        if sums[key]:
            lines.append(f"  {label}: {sums[key]:,.0f} GPU-hours")
    for run in plan:
        if budget := text_budget_of(run):
            lines.append(f"  {run.id}: {budget}")
            trained = trained_budget_of(plan, run)
            lines += [f"    of which are trained on: {trained}"] if trained else []
    return lines


def _write(root: Path, suite: str | None) -> int:
    from deeploop.dvc import dvc_yaml
    from deeploop.errors import EXIT_FAILURE
    from deeploop.fileio import write_if_changed
    from deeploop.frozen import plan_and_freeze, write_specs
    from deeploop.guard import announce, require_confirmation
    from deeploop.locks import hold_build_lock
    from deeploop.remote import fetcher
    from deeploop.resolve import Resolver

    lock = hold_build_lock(root, "dvc", wait=True)
    plan, _ = plan_and_freeze(root, suite)
    if write_if_changed(root / "dvc.yaml", dvc_yaml(plan)):
        print(
            "dvc.yaml did not match params.yaml; it does now: type `dvc repro` again",
            file=sys.stderr,
        )
        return EXIT_FAILURE
    write_specs(root, plan)
    resolver = Resolver(root, plan, True, fetcher(root))
    require_confirmation(resolver, announce(resolver, set(plan)))
    for run in resolver.computing():
        (root / run.manifest).unlink(missing_ok=True)
    assert lock is not None  # held until this process ends
    return 0
