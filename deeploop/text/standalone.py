"""Token shards outside a suite: what `deeploop data build` does."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from deeploop.errors import UserError
from deeploop.fileio import read_json, sha256_file
from deeploop.text.build import build_tokens
from deeploop.text.config import Corpus

WORK = ".build"
"""Inside the output folder, until the parts are complete: what a restart goes on from."""


def build_folder(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Build a corpus into a folder of its own; return its manifest.

    The manifest says, beside what the stage's says, what the tokens were made from.

    Args:
        settings: fields of `deeploop.text.config.Corpus`.
        folder: made if it is not there; a finished or interrupted build of the same corpus in it
            is gone on with.

    Raises:
        UserError: the settings or the source are wrong, or the folder holds something else.
        BuildError: something cannot be written; finished files are kept.
    """
    try:
        corpus = Corpus.model_validate(dict(settings))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{where}: {first['msg']}") from error
    params, names = corpus.resolve(Path.cwd(), "data build")
    files = [Path(name) for name in names]
    about = {"source": {**params, "files": _described(files)}}
    _refuse_foreign(folder)
    if (built := _built(folder, about)) is not None:
        return built
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    how = corpus.execution.model_dump()
    manifest = build_tokens(params, files, folder, folder / WORK, how, report=_show, about=about)
    shutil.rmtree(folder / WORK)
    return manifest


def _refuse_foreign(folder: Path) -> None:
    """Keep off a folder that holds something and no build of ours."""
    ours = (folder / WORK).is_dir() or _manifest(folder) is not None
    if not ours and folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty and holds no build of ours: name another --out")


def _manifest(folder: Path) -> dict[str, Any] | None:
    manifest = read_json(folder / "manifest.json")
    ours = isinstance(manifest, dict) and {"tokenizer", "splits", "source"} <= manifest.keys()
    return manifest if ours else None


def _built(folder: Path, about: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the manifest of a finished build of the same corpus, if its parts hold."""
    manifest = _manifest(folder)
    if manifest is None or manifest["source"] != json.loads(json.dumps(about["source"])):
        return None
    for split in manifest["splits"].values():
        for part in split["parts"]:
            path = folder / part["file"]
            if not path.is_file() or sha256_file(path) != part["sha256"]:
                return None
    return manifest


def _described(files: Sequence[Path]) -> list[dict[str, Any]]:
    return [
        {"name": file.name, "size": file.stat().st_size, "sha256": sha256_file(file)}
        for file in files
    ]


def _show(unit: Mapping[str, Any]) -> None:
    print(f"{unit['unit']}: {unit['tokens']:,} tokens", file=sys.stderr, flush=True)
