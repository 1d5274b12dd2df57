"""What torchrun starts in the tests of launching: it trains nothing, and ends as it is told."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import torch

from deeploop.errors import Interrupted, UserError
from deeploop.training.launch import work_off


def pretend(folder: Path, ending: str, stop: Callable[[], bool]) -> None:
    rank = os.environ["RANK"]
    logging.getLogger("deeploop.training").info("rank %s: %s", rank, ending)
    (folder / f"alive-{rank}").write_text(str(os.getpid()))
    if ending == "mistake":
        raise UserError("the batch is odd")
    if ending == "bug" and rank == "1":
        raise ValueError("a bug")
    if ending == "killed":
        torch.distributed.init_process_group("gloo")
        if rank == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        torch.distributed.all_reduce(torch.ones(1))  # it fails, for want of the other
    agreed = folder / "agreed"  # a real training sums its processes' wishes
    while not (stop() or agreed.exists()):
        time.sleep(0.01)
        (folder / f"beat-{rank}").write_text(str(time.time()))
    agreed.touch()
    raise Interrupted("saved at step 3")


if __name__ == "__main__":
    work_off(pretend)
