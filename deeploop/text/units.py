"""Encoding one unit of a corpus, so that a finished unit is kept for a restart.

A finished unit is three files in the work folder: its ids (`.tokens`, laid out as a part), its
documents (`.documents.npy`) and, written last, a record (`.json`) with a checksum and a stamp of
what it was made from. Once its parts are there (`deeploop.text.assembly`), its ids are freed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b, sha256
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deeploop.errors import BuildError, Interrupted
from deeploop.fileio import dump_json, read_json, sha256_file, write_atomically
from deeploop.text.corpora import Document, Unit
from deeploop.text.shards import HEADER_BYTES, MAX_PART_TOKENS, TOKEN, Tokens, header
from deeploop.text.tokenizers import Backend, Tokenizer, load_tokenizer

DOCUMENT = np.dtype([("hash", "<u8"), ("tokens", "<u4")])
"""A document: the hash of its id, and its tokens with end-of-text."""
BATCH_CHARACTERS = 2**20

Documents = NDArray[np.void]


@dataclass(frozen=True)
class Task:
    """One unit to encode, in any process."""

    unit: Unit
    base: Path
    """Path in the work folder without suffix, e.g. `work/unit-00000`."""
    tokenizer: str
    tokenizer_files: Path | None
    backend: Backend

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

    @property
    def parts_path(self) -> Path:
        """The record of the unit's parts, once its ids are freed."""
        return self.base.with_suffix(".parts.json")

    @property
    def is_freed(self) -> bool:
        """Whether the parts have taken the place of the ids."""
        return self.parts_path.exists() and not self.tokens_path.exists()

    def stamp(self) -> str:
        """Return a digest of all that the unit's tokens depend on, and of what encoded them."""
        made = f"{self.tokenizer} {self.backend} {self.unit.stamp()}"
        return sha256(made.encode()).hexdigest()

    def documents(self) -> Documents:
        """Return the documents of the finished unit; DOCUMENT [documents]."""
        documents: Documents = np.load(self.documents_path)
        return documents

    def tokens(self, begin: int, end: int) -> Tokens:
        """Return ids of the finished unit; uint16 [end - begin]."""
        offset = HEADER_BYTES + begin * TOKEN.itemsize
        return np.fromfile(self.tokens_path, dtype=TOKEN, count=end - begin, offset=offset)


@dataclass(frozen=True)
class Record:
    """What is known of a finished unit."""

    stamp: str
    documents: int
    tokens: int
    sha256: str
    """Of the file of ids."""


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
    if (record := _finished(task)) is not None:
        return record
    tokenizer = _tokenizer(task.tokenizer, task.tokenizer_files, task.backend)
    documents: list[Documents] = [np.empty(0, dtype=DOCUMENT)]
    temporary = task.base.with_suffix(f".{os.getpid()}.tmp")
    with writing(temporary):
        with temporary.open("wb") as stream:
            stream.write(bytes(HEADER_BYTES))
            for batch in _batches(task.unit.documents()):
                if stop():
                    raise Interrupted("tokenization was stopped; finished files are kept")
                ids = tokenizer.encode([document.text for document in batch])
                stream.write(_with_marks(ids, tokenizer.end_of_text).data)
                documents.append(_described(batch, ids))
            tokens = (stream.tell() - HEADER_BYTES) // TOKEN.itemsize
            if tokens <= MAX_PART_TOKENS:
                stream.seek(0)
                stream.write(header(tokens))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(task.tokens_path)
        task.parts_path.unlink(missing_ok=True)
        return _recorded(task, np.concatenate(documents))


def _finished(task: Task) -> Record | None:
    """Return the record of a unit that was finished from the same source, if it still holds."""
    try:
        record = Record(**read_json(task.record_path))
    except TypeError:
        return None
    if record.stamp != task.stamp() or not task.documents_path.is_file():
        return None
    if task.is_freed:  # whether its parts hold is known when the split is
        return record
    if not task.tokens_path.is_file() or sha256_file(task.tokens_path) != record.sha256:
        return None
    return record


def _save(path: Path, documents: Documents) -> None:
    # by way of memory: what numpy raises when a disk is full does not say so
    buffer = BytesIO()
    np.save(buffer, documents)
    path.write_bytes(buffer.getbuffer())


def _recorded(task: Task, documents: Documents) -> Record:
    _save(task.documents_path, documents)
    record = Record(
        stamp=task.stamp(),
        documents=len(documents),
        tokens=int(documents["tokens"].sum(dtype=np.int64)),
        sha256=sha256_file(task.tokens_path),
    )
    write_atomically(task.record_path, dump_json(asdict(record)))
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


def _described(batch: Sequence[Document], ids: Sequence[Tokens]) -> Documents:
    documents: Documents = np.empty(len(batch), dtype=DOCUMENT)
    documents["hash"] = [document_hash(document.id) for document in batch]
    documents["tokens"] = [len(found) + 1 for found in ids]
    return documents


def _with_marks(documents: Sequence[Tokens], end_of_text: int) -> Tokens:
    """Join the ids of documents, each after an end-of-text token."""
    mark = np.array([end_of_text], dtype=TOKEN)
    return np.concatenate([piece for ids in documents for piece in (mark, ids)])


@lru_cache(maxsize=1)
def _tokenizer(name: str, files: Path | None, backend: Backend) -> Tokenizer:
    return load_tokenizer(name, files, backend)


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
