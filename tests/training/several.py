"""Several trainings in one start of torchrun, which costs more than they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deeploop.training.language_model import train_language_model
from deeploop.training.launch import work_off


def train_several(
    tokens: Path,
    root: Path,
    wanted: Mapping[str, Any],
    execution: Mapping[str, Any],
    stop: Callable[[], bool],
) -> None:
    for name, params in wanted.items():
        place = root / name
        (place / "work").mkdir(parents=True, exist_ok=True)
        telemetry = place / "telemetry.jsonl"
        arguments = (params, tokens, place / "out", place / "work", execution, telemetry, stop)
        train_language_model(*arguments)


if __name__ == "__main__":
    work_off(train_several)
