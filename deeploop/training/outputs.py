"""What every training leaves beside its weights."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deeploop.fileio import dump_json
from deeploop.training.loop import Trainer, snapshot_path


def write_records(trainer: Trainer, metrics: Mapping[str, Any], folder: Path) -> None:
    """Write `metrics.json`, `history.json` and the snapshots that the plan names."""
    records = {"metrics.json": metrics, "history.json": trainer.history.as_json()}
    for name, content in records.items():
        (folder / name).write_text(dump_json(content), encoding="utf-8")
    for step in trainer.task.snapshot_steps:
        kept = snapshot_path(trainer.work, step)
        if kept.exists():  # a diverged run ended before it
            (folder / "snapshots").mkdir(exist_ok=True)
            shutil.copyfile(kept, folder / "snapshots" / kept.name)
