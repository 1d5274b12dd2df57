"""Where things are: the project folder, the code that runs, and the stages it declares."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from deeploop.errors import UserError

if TYPE_CHECKING:
    from deeploop.stage import Stage

PLAN_FILE = "params.yaml"
FROZEN_MARK = ".frozen"
"""Lies in the root of a frozen copy of the code."""


def find_root(start: Path | None = None) -> Path:
    """Return the project folder: the nearest one at or above `start` that holds params.yaml.

    Raises:
        UserError: when there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / PLAN_FILE).is_file():
            return folder
    raise UserError(f"no {PLAN_FILE} in {here} or above: run deeploop inside a project folder")


def code_root() -> Path:
    """Return the folder whose `deeploop/` is running: the project, or a frozen copy of it."""
    return Path(__file__).resolve().parent.parent


def is_frozen() -> bool:
    """Say whether the running code is a frozen copy in a store (see `deeploop.frozen`)."""
    return (code_root() / FROZEN_MARK).is_file()


def stages_home(root: Path) -> Path:
    """Return the folder that holds `stages/`: a frozen copy brings its own."""
    return code_root() if is_frozen() else root


def store_root(root: Path) -> Path:
    """Return the store's folder: `store/` in the project, or where DEEPLOOP_STORE points."""
    return Path(os.environ.get("DEEPLOOP_STORE") or root / "store").absolute()


def load_registry(root: Path) -> tuple[Stage, ...]:
    """Return the project's stages in topological order.

    Raises:
        UserError: when the project has no `stages/`.
    """
    home = stages_home(root)
    if not (home / "stages" / "__init__.py").is_file():
        raise UserError(f"{home} has no stages/ folder beside {PLAN_FILE}")
    if str(home) not in sys.path:
        sys.path.insert(0, str(home))
    registry: tuple[Stage, ...] = importlib.import_module("stages").REGISTRY
    return registry
