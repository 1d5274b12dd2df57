"""What the runs were trained on: tokens, documents, puzzles, and the digests that say so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deeploop.fileio import read_json
from deeploop.plan import Run


@dataclass(frozen=True)
class DataSet:
    """One corpus or data set."""

    run: str
    about: tuple[tuple[str, str], ...]
    """What is known of it: name and value."""


def data_sets(found: list[tuple[Run, Path]]) -> tuple[DataSet, ...]:
    """Return the data sets among finished runs, each with its counts and digests."""
    readers = {"tokenize": _corpus, "build_arc": _puzzles}
    return tuple(
        DataSet(run.id, readers[run.stage](folder)) for run, folder in found if run.stage in readers
    )


def _corpus(folder: Path) -> tuple[tuple[str, str], ...]:
    manifest = read_json(folder / "manifest.json") or {}
    tokenizer = manifest.get("tokenizer", {})
    about = [("tokenizer", f"{tokenizer.get('name')}, vocabulary {tokenizer.get('vocab_size')}")]
    for name, split in manifest.get("splits", {}).items():
        about.append((name, f"{split['tokens']:,} tokens of {split['documents']:,} documents"))
        about += [(part["file"], f"sha256 {part['sha256']}") for part in split["parts"]]
    return tuple(about)


def _puzzles(folder: Path) -> tuple[tuple[str, str], ...]:
    summary = read_json(folder / "summary.json") or {}
    puzzles = ", ".join(f"{count:,} {name}" for name, count in summary.get("puzzles", {}).items())
    rows = ", ".join(f"{count:,} {name}" for name, count in summary.get("rows", {}).items())
    digests = ((name, f"sha256 {digest}") for name, digest in summary.get("files", {}).items())
    return (("puzzles", puzzles), ("rows", rows), *digests)
