"""Small made-up runs, as trainings leave them: metrics.json and history.json in a folder each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deeploop.reporting.runs import PlacedRun
from deeploop.stage import Draft, Input, Job

FLOOR = 3.3


def training_draft(
    backbone: str, rule: str, p: float, loops: int, seed: int, *groups: str
) -> Draft:
    cell = {"backbone": backbone, "scaling": rule, "p": p, "loops": loops, "seed": seed}
    return Draft(name=f"{backbone}-{rule}-r{loops}-s{seed}", params={}, groups=groups, cell=cell)


def write_training(folder: Path, loss: float | None, length: int = 450, **changes: Any) -> None:
    """Write a training's outputs; a loss at the floor counts as `floor`."""
    folder.mkdir(parents=True, exist_ok=True)
    stuck = loss is not None and loss > FLOOR - 0.1
    metrics = {
        "validation_loss": loss,
        "final_validation_loss": loss,
        "train_loss_last": loss,
        "unigram_floor": FLOOR,
        "outcome": "diverged" if loss is None else "floor" if stuck else "trained",
        "validation_loss_source": "validation",
        "steps": length,
        "tokens": 115_200,
        "parameters": 81_920,
        **changes,
    }
    start, steps = loss or FLOOR, range(1, length + 1)
    history = {
        "step": list(steps),
        "loss": [start + 2.0 / (1 + step / 20) for step in steps],
        "learning_rate": [3e-3 * min(1.0, step / 30) for step in steps],
        "grad_norm": [1.0 / (1 + step / 50) for step in steps],
        "validations": [{"step": step, "loss": start + 0.01} for step in (length // 3, length)],
    }
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "history.json").write_text(json.dumps(history))


def placed(
    root: Path, losses: Mapping[tuple[str, str, float, int, int], float | None]
) -> list[PlacedRun]:
    """Write a training for each (backbone, rule, p, loops, seed) and return the runs."""
    runs = []
    for key, loss in losses.items():
        draft = training_draft(*key)
        folder = root / draft.name
        write_training(folder, loss)
        cell = {**draft.cell, "groups": ["table1"]}
        runs.append(PlacedRun(f"train_lm/{draft.name}", cell, folder))
    return runs


def write_evaluation(folder: Path, accuracy: Mapping[int, Mapping[str, float]], n: int) -> None:
    """Write a downstream evaluation's outputs; accuracies are shares."""
    folder.mkdir(parents=True, exist_ok=True)
    shots = {
        str(count): {
            task: {"acc": acc, "stderr": (acc * (1 - acc) / n) ** 0.5, "n": n}
            for task, acc in tasks.items()
        }
        for count, tasks in accuracy.items()
    }
    (folder / "metrics.json").write_text(json.dumps({"shots": shots, "source": "samples"}))


def write_vote(folder: Path, shares: Mapping[int, float], puzzles: int) -> None:
    """Write a vote's outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    votes = {str(count): share for count, share in shares.items()}
    (folder / "metrics.json").write_text(json.dumps({"votes": votes, "puzzles": puzzles}))


def _estimate(value: float | None) -> dict[str, float | None]:
    return {"value": value, "low": value, "high": value}


def _point(step: int, kappa: float | None, rounds: int = 3) -> dict[str, Any]:
    module = {
        "rounds": rounds,
        "kappa": _estimate(kappa),
        "pair_cosine": _estimate(0.5),
        "kappa_defined": _estimate(1.2),
        "gradient_norms": [0.1] * rounds,
        "common": [0.2] * rounds,
        "blocks": {},
    }
    modules = {"loop": module, "once": module | {"rounds": 1}}
    return {"step": step, "loss": 2.0, "amplification": _estimate(2.2), "modules": modules}


def write_alignment(folder: Path, end: float | None, outcome: str = "trained") -> None:
    """Write what a measurement along a training puts out."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {"outcome": outcome, "points": [_point(0, 3.0), _point(450, end)]}
    (folder / "alignment.json").write_text(json.dumps(found))


class FakePlan:
    """Drafts by stage, as `expand` sees the plan so far."""

    def __init__(self, suite: str, drafts: Mapping[str, list[Draft]]) -> None:
        self.suite = suite
        self._drafts = dict(drafts)

    def of(self, stage: str, group: str | None = None) -> list[Draft]:
        drafts = self._drafts.get(stage, [])
        return [draft for draft in drafts if group is None or group in draft.groups]

    def shared(self, kind: str, name: str) -> Mapping[str, Any]:
        raise KeyError((kind, name))

    def add(self, stage: str, drafts: Iterable[Draft]) -> None:
        self._drafts.setdefault(stage, []).extend(drafts)


def job_of(stage: str, suite: str, draft: Draft, root: Path) -> Job:
    """Return the job of a planned run whose inputs lie in `root/<stage>/<run>`."""
    folder = root / stage / draft.name
    folder.mkdir(parents=True, exist_ok=True)
    (root / "work").mkdir(exist_ok=True)
    inputs = tuple(Input(up, run, root / up / run) for up, run in draft.inputs)
    return Job(
        suite=suite,
        stage=stage,
        run=draft.name,
        params=json.loads(json.dumps(draft.params)),
        inputs=inputs,
        files=(),
        folder=folder,
        work=root / "work",
        execution={},
        telemetry=root / "telemetry.jsonl",
    )
