"""Fetching a corpus from the hub: as many files of a rule, in order, as hold enough tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deeploop.errors import Interrupted, UserError
from deeploop.fileio import dump_json, read_json, write_atomically
from deeploop.text.card import CARD, configuration_patterns
from deeploop.text.files import column_sum
from deeploop.text.hub import HubFile, download, list_hub_files

LIST = "files.json"
"""What was fetched, in the order in which it is read; beside the files."""


def fetch_text(
    params: Mapping[str, Any],
    folder: Path,
    work: Path,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> None:
    """Resolve a rule and fetch its files into `folder`, with their list `files.json`.

    Args:
        params: fields of `deeploop.text.config.Hub`.
        folder: where the outputs go; it exists.
        work: where files come in, whole and in part; it outlives an interruption.
        stop: polled; true ends the work in order.
        report: called with each file, for logs.

    Raises:
        UserError: the rule does not fit what is on the hub.
        BuildError: the hub cannot be reached, or a file cannot be written or came damaged.
        Interrupted: `stop` said so; the same call goes on from what has come.
    """
    listed = list_hub_files(params["repo"], params["revision"], _patterns(params, work, stop))
    entries: list[dict[str, Any]] = []
    for file, entry in _fetched(listed, params, work, stop):
        report(entry)
        entries.append(entry)
        _place(work / file.path, folder / file.path)
    write_atomically(folder / LIST, dump_json({"files": entries}))


def fetched_files(folder: Path) -> list[Path]:
    """Return the files that `fetch_text` has left in `folder`, in its order.

    Raises:
        UserError: it has no list of files.
    """
    content = read_json(folder / LIST)
    if not isinstance(content, dict):
        raise UserError(f"{folder} holds no {LIST}: it is not what fetch_text leaves")
    return [folder / entry["path"] for entry in content["files"]]


def _patterns(params: Mapping[str, Any], work: Path, stop: Callable[[], bool]) -> Sequence[str]:
    """Return the globs that a rule gives, or those of its configuration from the card."""
    if params["configuration"] is None:
        files: Sequence[str] = params["files"]
        return files
    [card] = list_hub_files(params["repo"], params["revision"], [CARD])
    download(card, work / CARD, stop)
    return configuration_patterns(work / CARD, params["configuration"], card.where)


def _fetched(
    listed: list[HubFile], params: Mapping[str, Any], work: Path, stop: Callable[[], bool]
) -> Iterator[tuple[HubFile, dict[str, Any]]]:
    """Yield files with their entries until they hold the tokens that are wanted."""
    held = 0
    for file in listed:
        if stop():
            raise Interrupted("the download was stopped; what has come is kept")
        sha256 = download(file, work / file.path, stop)
        entry = {"path": file.path, "size": file.size, "sha256": sha256}
        if params["max_tokens"] is not None:
            tokens, documents = column_sum(work / file.path, params["token_count"])
            entry |= {"tokens": tokens, "documents": documents}
            held += tokens + documents  # each document brings an end-of-text token
        yield file, entry
        if params["max_tokens"] is not None and held >= params["max_tokens"]:
            return


def _place(source: Path, target: Path) -> None:
    """Link a file into the outputs: one that was moved would be lost with a killed attempt."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        source.rename(target)
