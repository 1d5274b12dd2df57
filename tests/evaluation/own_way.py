"""Task definitions by which the harness loads our samples in its own way."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import lm_eval.tasks
import yaml

from deeploop.evaluation.harness import DEFINITIONS
from deeploop.evaluation.sources import SAMPLES


def write_definitions(folder: Path, tasks: Iterable[str]) -> None:
    """Write files that include the stock definitions and name other data."""
    stock = Path(lm_eval.tasks.__file__).parent
    for name in tasks:
        files = {path.stem: str(path) for path in (SAMPLES / name).glob("*.jsonl")}
        config = {
            "include": str(stock / DEFINITIONS[name]),
            "task": name,
            "dataset_path": "json",
            "dataset_name": None,
            "dataset_kwargs": {"data_files": files, "cache_dir": str(folder / "cache")},
        }
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
