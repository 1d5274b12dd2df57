"""Text to token shards and their manifest.

Two passes. The dear one turns units into ids, in parallel, each finished unit kept
(`deeploop.text.units`). The cheap one, which knows every document, takes validation out and
writes the parts. So the bytes depend on the documents and their order alone, and a restart repeats
at most the units that were being worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deeploop.text.config import TextExecution
from deeploop.text.corpora import open_units
from deeploop.text.parts import PART_TOKENS, Contents, views, write_split
from deeploop.text.ready_made import ready_made
from deeploop.text.shards import Tokens
from deeploop.text.split import Split, choose_split
from deeploop.text.tokenizers import TOKENIZERS
from deeploop.text.units import Record, Task, encode_units, write_json, writing

Report = Callable[[Mapping[str, Any]], None]


def build_tokens(
    params: Mapping[str, Any],
    files: Sequence[Path],
    folder: Path,
    work: Path,
    execution: Mapping[str, Any],
    stop: Callable[[], bool] = lambda: False,
    report: Report = lambda _: None,
) -> dict[str, Any]:
    """Write `train-*.bin`, `validation-*.bin` and `manifest.json`; return the manifest.

    Args:
        params: what `deeploop.text.config.Corpus.resolve` returned.
        files: the files it named, in its order.
        folder: where the outputs go; it exists.
        work: what a restart goes on from; it exists, outlives an interruption, and may be
            removed once this returns.
        execution: fields of `deeploop.text.config.TextExecution`.
        stop: polled; true ends the work in order.
        report: called with each finished unit, for logs.

    Raises:
        UserError: the source is missing, damaged, empty, or too small for its validation split.
        BuildError: something cannot be written, or a process died; finished units are kept.
        Interrupted: `stop` said so; the same call goes on from the finished units.
    """
    for pattern in ("train-*.bin", "validation-*.bin", "*.tmp"):
        for left_over in (*folder.glob(pattern), *work.glob(pattern)):
            left_over.unlink()
    how = TextExecution.model_validate(dict(execution))
    if params["source"]["kind"] == "shards":
        contents = ready_made(params, files)
    else:
        contents = _tokenized(params, _tasks(params, files, work, how), how.workers, stop, report)
    splits = {
        split: write_split(folder, split, content, stop) for split, content in contents.items()
    }
    manifest = {"tokenizer": describe_tokenizer(params["tokenizer"]), "splits": splits}
    with writing(folder / "manifest.json.tmp"):
        write_json(folder / "manifest.json", manifest)
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


def _tasks(
    params: Mapping[str, Any], files: Sequence[Path], work: Path, how: TextExecution
) -> list[Task]:
    tokenizer_files = Path(how.tokenizer_files) if how.tokenizer_files else None
    return [
        Task(unit, work / f"unit-{index:05d}", params["tokenizer"], tokenizer_files)
        for index, unit in enumerate(open_units(params["source"], files))
    ]


def _tokenized(
    params: Mapping[str, Any],
    tasks: Sequence[Task],
    workers: int,
    stop: Callable[[], bool],
    report: Report,
) -> dict[str, Contents]:
    """Encode all units, choose validation, and say what the parts hold."""

    def report_unit(task: Task, record: Record) -> None:
        report({"unit": task.unit.label, "tokens": record.tokens, "documents": record.documents})

    maximum = params["max_tokens"]
    records = encode_units(tasks, workers, maximum, stop, report_unit)
    tasks = tasks[: len(records)]
    split = choose_split([task.documents() for task in tasks], params["validation_tokens"], maximum)
    validation = _validation(tasks, split)
    train = (part for index in range(len(tasks)) for part in _train_parts(tasks, index, split))
    return {
        "train": Contents(train, sum(split.kept) - len(validation)),
        "validation": Contents([validation], len(validation)),
    }


def _kept(tasks: Sequence[Task], index: int, split: Split) -> tuple[Any, Any, Any]:
    """Return of one unit's kept documents: themselves, and where their tokens begin and end."""
    documents = tasks[index].documents()[: split.kept[index]]
    ends = np.cumsum(documents["tokens"], dtype=np.int64)
    return documents, ends - documents["tokens"], ends


def _train_parts(tasks: Sequence[Task], index: int, split: Split) -> Iterator[list[Tokens]]:
    """Yield one unit's training tokens as parts of at most PART_TOKENS, each a list of views."""
    documents, begins, ends = _kept(tasks, index, split)
    taken_out = np.flatnonzero(split.is_validation(documents))
    stretches = zip(
        [0, *ends[taken_out].tolist()],
        [*begins[taken_out].tolist(), int(ends[-1]) if len(ends) else 0],
        strict=True,
    )
    tokens = tasks[index].tokens()
    part: list[Tokens] = []
    room = PART_TOKENS
    for begin, end in stretches:
        for view in views(tokens[begin:end]):
            if len(view) > room:
                yield part
                part, room = [], PART_TOKENS
            part.append(view)
            room -= len(view)
    if part:
        yield part


def _validation(tasks: Sequence[Task], split: Split) -> list[Tokens]:
    """Return the validation documents in the order of their hashes."""
    found: list[tuple[int, Tokens]] = []
    for index, task in enumerate(tasks):
        documents, begins, ends = _kept(tasks, index, split)
        tokens = task.tokens()
        for row in np.flatnonzero(split.is_validation(documents)):
            found.append((int(documents["hash"][row]), tokens[begins[row] : ends[row]]))
    found.sort(key=lambda pair: pair[0])
    return [tokens for _, tokens in found]
