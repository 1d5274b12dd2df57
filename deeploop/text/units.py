"""Units to token ids: a pool of processes, each finished unit kept for a restart.

A finished unit is three files in the work folder: its ids (`.tokens`, raw uint16), its documents
(`.documents.npy`) and, written last, a record (`.json`) with a checksum and a stamp of what it was
made from. A restart takes over the units whose record still holds.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b, file_digest, sha256
from multiprocessing import connection, get_context, parent_process
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deeploop.errors import BuildError, Interrupted
from deeploop.text.corpora import Document, Unit
from deeploop.text.shards import TOKEN, Tokens
from deeploop.text.tokenizers import Tokenizer, load_tokenizer

DOCUMENT = np.dtype([("hash", "<u8"), ("tokens", "<u4")])
"""A document: the hash of its id, and its tokens with end-of-text."""
BATCH_CHARACTERS = 2**19
POLL_SECONDS = 0.2

Documents = NDArray[np.void]


@dataclass(frozen=True)
class Task:
    """One unit to encode, in any process."""

    unit: Unit
    base: Path
    """Path in the work folder without suffix, e.g. `work/unit-00000`."""
    tokenizer: str
    tokenizer_files: Path | None

    @property
    def tokens_path(self) -> Path:
        """The unit's ids."""
        return self.base.with_suffix(".tokens")

    @property
    def documents_path(self) -> Path:
        """The unit's documents."""
        return self.base.with_suffix(".documents.npy")

    @property
    def record_path(self) -> Path:
        """The unit's record."""
        return self.base.with_suffix(".json")

    def stamp(self) -> str:
        """Return a digest of all that the unit's tokens depend on."""
        return sha256(f"{self.tokenizer} {self.unit.stamp()}".encode()).hexdigest()

    def documents(self) -> Documents:
        """Return the documents of the finished unit, memory-mapped; DOCUMENT [documents]."""
        return np.load(self.documents_path, mmap_mode="r")

    def tokens(self) -> Tokens:
        """Return the ids of the finished unit, memory-mapped; uint16 [tokens]."""
        if self.tokens_path.stat().st_size == 0:
            return np.empty(0, dtype=TOKEN)
        return np.memmap(self.tokens_path, dtype=TOKEN, mode="r")


@dataclass(frozen=True)
class Record:
    """What is known of a finished unit."""

    stamp: str
    documents: int
    tokens: int
    sha256: str
    """Of the ids."""


def document_hash(identity: str) -> int:
    """Return the 64-bit hash of a document's id that decides its split."""
    digest = blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def encode_unit(task: Task, stop: Callable[[], bool]) -> Record:
    """Encode one unit into the work folder, unless a record says that it is there.

    Raises:
        UserError: the source is missing, damaged, or not what the configuration says.
        BuildError: the work folder cannot be written.
        Interrupted: `stop` said so; nothing of the unit is kept.
    """
    if (record := finished(task)) is not None and _is_intact(task, record):
        return record
    tokenizer = _tokenizer(task.tokenizer, task.tokenizer_files)
    documents: list[tuple[int, int]] = []
    temporary = task.base.with_suffix(f".{os.getpid()}.tmp")
    with writing(temporary):
        with temporary.open("wb") as stream:
            for batch in _batches(task.unit.documents()):
                if stop():
                    raise Interrupted("tokenization was stopped")
                for document, ids in zip(batch, _encoded(tokenizer, batch), strict=True):
                    stream.write(ids.tobytes())
                    documents.append((document_hash(document.id), len(ids)))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(task.tokens_path)
        np.save(task.documents_path, np.array(documents, dtype=DOCUMENT))
        return _recorded(task, documents)


def finished(task: Task) -> Record | None:
    """Return the record of a unit that was finished from the same source, if there is one."""
    try:
        record = Record(**json.loads(task.record_path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return record if record.stamp == task.stamp() else None


def _is_intact(task: Task, record: Record) -> bool:
    if not (task.tokens_path.is_file() and task.documents_path.is_file()):
        return False
    return file_sha256(task.tokens_path) == record.sha256


def _recorded(task: Task, documents: Sequence[tuple[int, int]]) -> Record:
    record = Record(
        stamp=task.stamp(),
        documents=len(documents),
        tokens=sum(tokens for _, tokens in documents),
        sha256=file_sha256(task.tokens_path),
    )
    write_json(task.record_path, asdict(record))
    return record


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _encoded(tokenizer: Tokenizer, batch: Sequence[Document]) -> Iterator[Tokens]:
    """Yield each document's ids after an end-of-text token."""
    mark = np.array([tokenizer.end_of_text], dtype=TOKEN)
    for ids in tokenizer.encode([document.text for document in batch]):
        yield np.concatenate([mark, ids])


@lru_cache(maxsize=1)
def _tokenizer(name: str, files: Path | None) -> Tokenizer:
    return load_tokenizer(name, files)


def encode_units(
    tasks: Sequence[Task],
    workers: int,
    max_tokens: int | None,
    stop: Callable[[], bool],
    report: Callable[[Task, Record], None],
) -> list[Record]:
    """Encode units in order, until all are done or the first ones hold `max_tokens`.

    Args:
        tasks: units in the order of the corpus.
        workers: processes; with one, the work is done in this one.
        max_tokens: how many tokens are wanted.
        stop: polled; true ends the work in order.
        report: called for each unit as it is finished.

    Returns:
        The records of the first units: no more of them than are needed.

    Raises:
        UserError: a source is wrong.
        BuildError: the work folder cannot be written, or a process died.
        Interrupted: `stop` said so; finished units are kept.
    """
    records: list[Record] = []
    tokens = 0
    results = _in_this_process(tasks, stop) if workers == 1 else _in_pool(tasks, workers, stop)
    for task, record in zip(tasks, results, strict=False):
        report(task, record)
        records.append(record)
        tokens += record.tokens
        if max_tokens is not None and tokens >= max_tokens:
            break
    return records


def _in_this_process(tasks: Sequence[Task], stop: Callable[[], bool]) -> Iterator[Record]:
    for task in tasks:
        yield encode_unit(task, stop)


def _in_pool(tasks: Sequence[Task], workers: int, stop: Callable[[], bool]) -> Iterator[Record]:
    """Yield records in the order of `tasks`, `workers` of them being worked on."""
    context = get_context("spawn")
    halt = context.Event()
    with ProcessPoolExecutor(workers, context, _start_worker, (halt,)) as pool:
        waiting: list[Future[Record]] = []
        ahead = iter(tasks)
        try:
            while True:
                for task in _next(ahead, workers - sum(not f.done() for f in waiting)):
                    waiting.append(pool.submit(_encode_in_worker, task))
                if not waiting:
                    return
                _wait(waiting, stop)
                while waiting and waiting[0].done():
                    yield waiting.pop(0).result()
        except BrokenProcessPool as error:
            raise BuildError(
                "a tokenizing process died (killed, or out of memory); "
                "the same command goes on from the finished units"
            ) from error
        finally:
            halt.set()
            pool.shutdown(cancel_futures=True)


def _next(tasks: Iterator[Task], count: int) -> Iterable[Task]:
    return [task for _, task in zip(range(count), tasks, strict=False)]


def _wait(waiting: Sequence[Future[Record]], stop: Callable[[], bool]) -> None:
    """Wait until one more is done; an error anywhere is raised here."""
    running = [future for future in waiting if not future.done()]
    while True:
        if stop():
            raise Interrupted("tokenization was stopped; finished files are kept")
        if not running or wait(running, POLL_SECONDS, FIRST_COMPLETED).done:
            break
    for future in waiting:
        if future.done():
            future.result()


_halt: Event | None = None


def _start_worker(halt: Event) -> None:
    """Leave signals to the parent, and do not outlive it."""
    global _halt
    _halt = halt
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _encode_in_worker(task: Task) -> Record:
    assert _halt is not None
    return encode_unit(task, _halt.is_set)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an operating system's error into one line, and leave no temporary file behind.

    Raises:
        BuildError: for any OSError of the body.
    """
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"cannot write {path.parent}: {error.strerror or error}; "
            "what is finished is kept, the same command goes on from there"
        ) from error
    finally:
        path.unlink(missing_ok=True)


def write_json(path: Path, content: object) -> None:
    """Write sorted JSON under a temporary name, flush it, rename it."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w") as stream:
        stream.write(json.dumps(content, indent=1, sort_keys=True) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def file_sha256(path: Path) -> str:
    """Return a file's sha256, in hexadecimal."""
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
