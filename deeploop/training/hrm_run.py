"""Trains HRM on a built ARC data set, in one process or, through torchrun, in several."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deeploop.arc.build import DIGESTS_FILE
from deeploop.arc.files import BLOCK_ROWS, verify_block
from deeploop.arc.rows import ArcRows
from deeploop.draws import draw_seed
from deeploop.training.config import Execution, rows_each
from deeploop.training.hrm_config import HRMTraining
from deeploop.training.hrm_task import train_hrm
from deeploop.training.launch import launched, run_processes, work_off
from deeploop.training.puzzle_order import PuzzleRows


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

    With `execution.processes` above one, torchrun does it in as many processes of their own.

    Raises:
        Interrupted: stopped in order; the same call resumes.
        UserError: data, model and execution do not fit together.
        BuildError: the data are not as they were built, or checkpoints cannot be written or used.
    """
    training = HRMTraining.model_validate(params["training"])
    run = Execution.model_validate(execution)
    if run.processes > 1 and not launched():
        rows_each(training.recipe.batch_rows, run.processes)
        paths = {"data_folder": data_folder, "folder": folder, "work": work, "telemetry": telemetry}
        values = {"params": params, "execution": run.model_dump(), "label": label}
        run_processes("deeploop.training.hrm_run", paths, values, run, work, stop)
        return
    data = verified_splits(data_folder, training.seed)
    train_hrm(params, data, folder, work, execution, telemetry, stop, label)


def verified_splits(folder: Path, seed: int) -> Mapping[str, PuzzleRows]:
    """Open the splits `train` and `test` of a build, and render one training block again.

    Which block it is hangs on the seed: so this machine's rows are the build's before any
    training on them.

    Raises:
        UserError: when the folder holds no build.
        BuildError: when the block's digest is not that of the build.
    """
    train, test = ArcRows(folder, "train"), ArcRows(folder, "test")
    digests = json.loads((folder / DIGESTS_FILE).read_text(encoding="utf-8"))
    blocks = -(-train.count // BLOCK_ROWS)
    verify_block(train, digests["blocks"], draw_seed(seed, "verified block") % blocks)
    return {"train": train, "test": test}


if __name__ == "__main__":
    work_off(train_on_build)
