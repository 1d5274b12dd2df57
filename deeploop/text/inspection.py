"""Looking into token shards: how much they hold, what it reads like, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeploop.errors import UserError
from deeploop.fileio import read_json, sha256_file
from deeploop.text.shards import TOKEN, Tokens, open_part
from deeploop.text.tokenizers import TOKENIZERS, Tokenizer, load_tokenizer

SAMPLE_TOKENS = 64
BLOCK_TOKENS = 2**22
"""Tokens looked at together, to bound memory."""


@dataclass(frozen=True)
class SplitFound:
    """What one split holds."""

    name: str
    parts: int
    tokens: int
    documents: int
    lengths: Mapping[int, int]
    """Power of two -> documents of fewer tokens than it, and of no fewer than half of it."""
    duplicates: int
    """Documents that repeat an earlier one of the split."""
    samples: tuple[str, ...]
    """The beginnings of documents, evenly spread."""


@dataclass(frozen=True)
class Found:
    """What a folder of shards holds."""

    path: Path
    tokenizer: str
    splits: tuple[SplitFound, ...]
    problems: tuple[str, ...]


def inspect_shards(path: Path, tokenizer: str | None = None, samples: int = 3) -> Found:
    """Read all tokens of a folder of shards, or of one shard.

    A shard that cannot be read is a problem, not an error: the others are still looked at.

    Args:
        path: the folder or the `.bin` file.
        tokenizer: which one has made them; by default what `manifest.json` says, or gpt2.
        samples: documents to decode of each split.

    Raises:
        UserError: there are no shards, or the tokenizer's files cannot be had.
    """
    parts = [path] if path.is_file() else sorted(path.glob("*.bin"))
    if not parts:
        raise UserError(f"{path} holds no token shards (*.bin)")
    manifest = read_json(path / "manifest.json") if path.is_dir() else None
    name = tokenizer or _named(manifest)
    if name not in TOKENIZERS:
        raise UserError(f"{path}/manifest.json names the tokenizer '{name}', which is unknown")
    problems = list(_against(manifest, path)) if isinstance(manifest, dict) else []
    known = load_tokenizer(name)
    splits, hashes = [], {}
    for split, files in _by_split(parts).items():
        look = _Look(known, path.is_dir())
        for file in files:
            problems += look.at(file)
        hashes[split] = np.unique(look.hashes())
        splits.append(look.found(split, len(files), len(hashes[split]), samples))
    if {"train", "validation"} <= hashes.keys():
        problems += _shared(hashes["train"], hashes["validation"])
    return Found(path, name, tuple(splits), tuple(problems))


class _Look:
    """One split, part by part; of a document that goes on in the next part, its beginning."""

    def __init__(self, tokenizer: Tokenizer, is_whole: bool) -> None:
        self._tokenizer = tokenizer
        self._is_whole = is_whole
        self._parts: list[tuple[Tokens, NDArray[np.int64]]] = []
        """Each part and where its documents begin."""
        self._hashes: list[NDArray[np.uint64]] = []

    def at(self, path: Path) -> Iterator[str]:
        """Take in a part; yield what is wrong with it."""
        try:
            tokens = open_part(path)
        except UserError as error:
            yield str(error)
            return
        begins = [np.empty(0, dtype=np.int64)]
        largest = 0
        for start in range(0, len(tokens), BLOCK_TOKENS):
            block = tokens[start : start + BLOCK_TOKENS]
            begins.append(np.flatnonzero(block == self._tokenizer.end_of_text) + start)
            largest = max(largest, int(block.max()))
        starts = np.concatenate(begins)
        if largest >= self._tokenizer.vocab_size:
            yield (
                f"{path} holds token {largest}, but {self._tokenizer.name} has only "
                f"{self._tokenizer.vocab_size}"
            )
            return
        if len(tokens) == 0:
            yield f"{path} is empty"
        if not self._parts and self._is_whole and starts[:1].tolist() != [0]:
            yield f"{path} does not begin with an end-of-text token: its first document is cut"
        self._parts.append((tokens, starts))
        ends = [*starts[1:].tolist(), len(tokens)]
        self._hashes.append(
            np.array(
                [_hash(tokens[b:e]) for b, e in zip(starts.tolist(), ends, strict=False)],
                dtype=np.uint64,
            )
        )

    def hashes(self) -> NDArray[np.uint64]:
        """Return the hash of each document's tokens; uint64 [documents]."""
        return np.concatenate([np.empty(0, dtype=np.uint64), *self._hashes])

    def found(self, name: str, parts: int, distinct: int, samples: int) -> SplitFound:
        """Sum up."""
        documents = sum(len(starts) for _, starts in self._parts)
        return SplitFound(
            name=name,
            parts=parts,
            tokens=sum(len(tokens) for tokens, _ in self._parts),
            documents=documents,
            lengths=self._lengths(),
            duplicates=documents - distinct,
            samples=tuple(self._samples(min(samples, documents), documents)),
        )

    def _lengths(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for tokens, starts in self._parts:
            lengths = np.diff(starts, append=len(tokens)) - 1  # without the mark
            exponents = np.ceil(np.log2(lengths + 1)).astype(int)
            for exponent, count in zip(*np.unique(exponents, return_counts=True), strict=True):
                counts[2 ** int(exponent)] = counts.get(2 ** int(exponent), 0) + int(count)
        return dict(sorted(counts.items()))

    def _samples(self, wanted: int, documents: int) -> Iterator[str]:
        for number in range(wanted):
            index = number * documents // wanted
            for tokens, starts in self._parts:
                if index < len(starts):
                    begin = int(starts[index]) + 1
                    end = int(starts[index + 1]) if index + 1 < len(starts) else len(tokens)
                    yield self._tokenizer.decode(tokens[begin : min(end, begin + SAMPLE_TOKENS)])
                    break
                index -= len(starts)


def _hash(tokens: Tokens) -> int:
    return int.from_bytes(blake2b(tokens.tobytes(), digest_size=8).digest(), "little")


def _named(manifest: Any) -> str:
    try:
        return str(manifest["tokenizer"]["name"])
    except (KeyError, TypeError):
        return "gpt2"


def _by_split(parts: Sequence[Path]) -> dict[str, list[Path]]:
    """Group shards by what stands before the last `-` or `_` and its number."""
    splits: dict[str, list[Path]] = {}
    for path in parts:
        split = path.stem.rstrip("0123456789").rstrip("-_") or path.stem
        splits.setdefault(split, []).append(path)
    return splits


def _against(manifest: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Yield where the folder is not what its manifest says."""
    named = set()
    for split in manifest.get("splits", {}).values():
        for part in split["parts"]:
            path = folder / part["file"]
            named.add(path)
            if not path.is_file():
                yield f"{path} is in the manifest and not there"
            elif sha256_file(path) != part["sha256"]:
                yield f"{path} is not what the manifest says: its sha256 differs"
    for path in sorted(set(folder.glob("*.bin")) - named):
        yield f"{path} is not in the manifest"


def _shared(train: NDArray[np.uint64], validation: NDArray[np.uint64]) -> Iterator[str]:
    shared = len(np.intersect1d(train, validation))
    if shared:
        yield f"{shared} of {len(validation)} validation documents are in train too"


def as_text(found: Found) -> str:
    """Return what was found as lines for a terminal."""
    lines = [f"{found.path}: {found.tokenizer} tokens"]
    for split in found.splits:
        lines += _split_lines(split)
    lines += [f"problem: {problem}" for problem in found.problems] or ["nothing is wrong"]
    return "\n".join(lines)


def _split_lines(split: SplitFound) -> Iterator[str]:
    share = split.duplicates / max(split.documents, 1)
    size = split.tokens * TOKEN.itemsize / 1e9
    yield (
        f"{split.name}: {split.tokens:,} tokens ({size:.3g} GB) in {split.parts} parts, "
        f"{split.documents:,} documents, {share:.2%} of them duplicates"
    )
    most = max(split.lengths.values(), default=1)
    for below, count in split.lengths.items():
        yield f"  {below // 2:>8,} to {below - 1:<9,} {count:>11,}  {'#' * (40 * count // most)}"
    for sample in split.samples:
        yield f"  > {sample!r}"
