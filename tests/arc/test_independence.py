"""Nothing about the machine bears on the bytes: listing order, hash seed, workers, cache, NumPy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.arc.made_up import Json

PROGRAM = """
import json, sys
from deeploop.arc.dataset import read_selection
from deeploop.arc.files import render_files
from deeploop.arc.plan import PlanSettings, make_plan
folder, mode, workers = sys.argv[1:]
sets = read_selection([folder], 30, "sorted").sets
digests = render_files(make_plan(sets, PlanSettings(25, mode)), workers=int(workers))
print(json.dumps(dict(digests.files)))
"""


def digests(folder: Path, mode: str, hash_seed: str, workers: int) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), mode, str(workers)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("mode", ["hrm", "philox"])
def test_files_made_in_another_order_hash_seed_and_workers_give_the_same_bytes(
    values: dict[str, dict[str, Json]], write: Callable[..., Path], mode: str
) -> None:
    forward = write(values, "forward")
    backward = write(
        {s: dict(reversed(f.items())) for s, f in reversed(values.items())}, "backward"
    )
    one, other = digests(forward, mode, "0", 1), digests(backward, mode, "3", 3)
    assert one == other and len(one) == 13
