"""Text to token shards and their manifest.

Two passes. The dear one turns units into ids, in parallel, each finished unit kept
(`deeploop.text.units`). The cheap one, which knows every document, takes validation out and
writes the parts (`deeploop.text.assembly`). So the bytes depend on the documents and their order
alone, and a restart repeats at most the units that were being worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

from deeploop.fileio import dump_json, write_atomically
from deeploop.text.assembly import Assembly, place_parts
from deeploop.text.config import TextExecution
from deeploop.text.corpora import open_units
from deeploop.text.parts import write_split
from deeploop.text.pool import encode_units
from deeploop.text.ready_made import ready_made
from deeploop.text.split import choose_split
from deeploop.text.tokenizers import TOKENIZERS
from deeploop.text.units import Documents, Record, Task, writing

Report = Callable[[Mapping[str, Any]], None]
Splits = dict[str, Any]


def build_tokens(
    params: Mapping[str, Any],
    files: Sequence[Path],
    folder: Path,
    work: Path,
    execution: Mapping[str, Any],
    stop: Callable[[], bool] = lambda: False,
    report: Report = lambda _: None,
    about: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Write `train-*.bin`, `validation-*.bin` and `manifest.json`; return the manifest.

    Args:
        params: what `deeploop.text.config.Corpus.resolve` returned.
        files: the files it named, in its order.
        folder: where the outputs go; it exists.
        work: what a restart goes on from; it exists, in the same file system, outlives an
            interruption, and may be removed once this returns.
        execution: fields of `deeploop.text.config.TextExecution`.
        stop: polled; true ends the work in order.
        report: called with each finished unit, for logs.
        about: what else the manifest says.

    Raises:
        UserError: the source is missing, damaged, empty, or too small for its validation split.
        BuildError: something cannot be written, or a process died; finished units are kept.
        Interrupted: `stop` said so; the same call goes on from the finished units.
    """
    for pattern in ("manifest.json", "train-*.bin", "validation-*.bin", "*.tmp", ".*.tmp"):
        for left_over in (*folder.glob(pattern), *work.glob(pattern)):
            left_over.unlink()
    if params["source"]["kind"] == "shards":
        contents = ready_made(params, files)
        splits = {name: write_split(folder, name, held, stop) for name, held in contents.items()}
    else:
        how = TextExecution.model_validate(dict(execution))
        splits = _tokenized(params, files, folder, work, how, stop, report)
    manifest = {"tokenizer": describe_tokenizer(params["tokenizer"]), "splits": splits, **about}
    with writing(folder / "manifest.json.tmp"):
        write_atomically(folder / "manifest.json", dump_json(manifest))
    return manifest


def describe_tokenizer(name: str) -> dict[str, Any]:
    """Return what the manifest says of a tokenizer; loads nothing."""
    kind = TOKENIZERS[name]
    return {
        "name": kind.name,
        "vocab_size": kind.vocab_size,
        "end_of_text": kind.end_of_text,
        "files": {file: {"sha256": digest} for file, digest in kind.files.items()},
    }


def _tokenized(
    params: Mapping[str, Any],
    files: Sequence[Path],
    folder: Path,
    work: Path,
    how: TextExecution,
    stop: Callable[[], bool],
    report: Report,
) -> Splits:
    """Encode all units, choose validation, and write the parts."""

    def encode(tasks: Sequence[Task], maximum: int | None) -> list[Record]:
        return encode_units(tasks, how.workers, maximum, stop, report_unit)

    def report_unit(task: Task, record: Record) -> None:
        report({"unit": task.unit.label, "tokens": record.tokens, "documents": record.documents})

    maximum = params["max_tokens"]
    tasks = _tasks(params, files, work, how)
    tasks = tasks[: len(encode(tasks, maximum))]
    split = choose_split(_DocumentsOf(tasks), params["validation_tokens"], maximum)
    assembly = Assembly(tasks, split, work)
    if lost := assembly.lost():
        for task in lost:
            task.parts_path.unlink()
        encode(lost, None)
    documents = assembly.documents()
    return {
        name: {
            "tokens": sum(part["tokens"] for part in parts),
            "documents": documents[name],
            "parts": place_parts(parts, work, folder, name),
        }
        for name, parts in assembly.write(stop).items()
    }


def _tasks(
    params: Mapping[str, Any], files: Sequence[Path], work: Path, how: TextExecution
) -> list[Task]:
    tokenizer_files = Path(how.tokenizer_files) if how.tokenizer_files else None
    return [
        Task(unit, work / f"unit-{index:05d}", params["tokenizer"], tokenizer_files, how.backend)
        for index, unit in enumerate(open_units(params["source"], files))
    ]


class _DocumentsOf(Sequence[Documents]):
    """The documents of units, read when they are looked at: all together may be too many."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, index: int) -> Documents: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Documents]: ...
    def __getitem__(self, index: int | slice) -> Documents | Sequence[Documents]:
        if isinstance(index, slice):
            return _DocumentsOf(self._tasks[index])
        return self._tasks[index].documents()
