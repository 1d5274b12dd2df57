from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "deeploop"
PROGRAM = """
import numpy as np
from deeploop.arc.kernels.streams import philox
philox(np.uint64(1), 2, 3, 4, 5)
stats = philox.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def copy_of_the_program(folder: Path) -> Path:
    kernels = folder / "deeploop" / "arc" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("__init__.py", "compiled.py", "streams.py"):
        shutil.copy(PACKAGE / "arc" / "kernels" / name, kernels / name)
    for package in (folder / "deeploop", folder / "deeploop" / "arc"):
        (package / "__init__.py").touch()
    return folder


def compile_in(folder: Path, cache: Path) -> str:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {
        k: v for k, v in environment.items() if k not in ("NUMBA_CACHE_DIR", "PYTHONPATH")
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_kernels_are_compiled_once_for_all_copies_of_the_program(tmp_path: Path) -> None:
    first, second, changed = (copy_of_the_program(tmp_path / n) for n in ("a", "b", "c"))
    cache = tmp_path / "cache"
    assert compile_in(first, cache) == "0 1"
    assert compile_in(first, cache) == "1 0"
    assert compile_in(second, cache) == "1 0"
    with (changed / "deeploop/arc/kernels/__init__.py").open("a") as file:
        file.write("# another file of the folder, which a kernel might call\n")
    assert compile_in(changed, cache) == "0 1"
    left = {path.name for path in first.rglob("*") if path.is_file()}
    assert left == {"__init__.py", "compiled.py", "streams.py"}


def test_kernels_work_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    program = copy_of_the_program(tmp_path / "a")
    assert [compile_in(program, tmp_path / "cache") for _ in range(2)] == ["0 1", "0 1"]
