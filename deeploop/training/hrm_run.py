"""Trains HRM on a built ARC data set, in one process or, through torchrun, in several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deeploop.training.hrm_config import HRMTraining
from deeploop.training.hrm_task import train_hrm
from deeploop.training.launch import in_processes, work_off
from deeploop.training.splits import verified_splits


@in_processes
def train_on_build(
    params: Mapping[str, Any],
    data_folder: Path,
    folder: Path,
    work: Path,
    execution: Mapping[str, Any],
    telemetry: Path,
    stop: Callable[[], bool],
    label: str = "train_hrm",
) -> None:
    """Train, or go on training, on the outputs of `build_arc`; see `train_hrm`.

    Raises:
        Interrupted: stopped in order; the same call resumes.
        UserError: data, model and execution do not fit together.
        BuildError: the data are not as they were built, or checkpoints cannot be written or used.
    """
    seed = HRMTraining.model_validate(params["training"]).seed
    data = verified_splits(data_folder, seed)
    train_hrm(params, data, folder, work, execution, telemetry, stop, label)


if __name__ == "__main__":
    work_off(train_on_build)
