"""Which files of a folder are puzzles. Imports nothing heavy: planning lists folders, too."""

from __future__ import annotations

from pathlib import Path

from deeploop.errors import UserError


def puzzle_files(folder: Path) -> list[Path]:
    """Return the `*.json` files in sub-folders of `folder`, sorted, without hidden ones.

    Raises:
        UserError: when there is no such folder, or no puzzle in its sub-folders.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of puzzles")
    paths = [path for path in sorted(folder.glob("*/*.json")) if not path.name.startswith(".")]
    if not paths:
        raise UserError(f"{folder}: no *.json files in its sub-folders (a set is a sub-folder)")
    return paths
