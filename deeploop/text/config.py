"""What params.yaml says about a corpus: where its text comes from and how it becomes tokens.

Imports no tokenizer and reads no text: planning uses it. `resolve_source` pins what the
identity of a corpus is: versions of packages, and the files whose digests the plan takes.
"""

from __future__ import annotations

from glob import glob
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from deeploop.errors import UserError
from deeploop.stage import Section

DOCSTRING_PACKAGES = ("networkx", "matplotlib", "polars")
"""Pinned packages that are installed anyway, with long docstrings (5.2 MB), and whose `.py` files
are the same on every platform and Python version (numpy's are not: distutils went with 3.12)."""

TextFormat = Literal["auto", "parquet", "jsonl", "text"]


class Docstrings(Section):
    """The embedded corpus: docstrings of installed packages. Needs no download."""

    kind: Literal["docstrings"]
    packages: tuple[str, ...] = Field(default=DOCSTRING_PACKAGES, min_length=1)
    """Names of installed distributions, read in this order."""


class Files(Section):
    """Local text: Parquet, JSON lines or plain text, the latter two also as .gz or .zst."""

    kind: Literal["files"]
    paths: tuple[str, ...] = Field(min_length=1)
    """Globs (`**` allowed); the files are read in the order of their names."""
    format: TextFormat = "auto"
    """Read from each file's suffix when `auto`: .parquet, .jsonl, .ndjson or .json, .txt."""
    text: str = "text"
    """Column or key that holds a document's text."""
    id: str | None = None
    """Column or key whose hash decides a document's split; the text itself when absent."""
    separator: str | None = Field(default=None, min_length=1)
    """Where a plain text file is cut into documents, e.g. a blank line; one document a file
    when absent."""


class Hub(Section):
    """Which files of a data set on the Hugging Face hub are a corpus: a rule, not a list.

    They are read in the order of their paths.
    """

    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    """Data set, e.g. `HuggingFaceFW/fineweb-edu`."""
    revision: str = Field(pattern=r"^[0-9a-f]{40}$")
    """Commit. A branch or a tag moves, and the corpus with it."""
    configuration: str | None = Field(default=None, min_length=1)
    """By the name that the data set's card gives it, e.g. `sample-100BT`: its training files."""
    files: tuple[str, ...] = ()
    """Globs of paths in the data set, in the place of a configuration."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Fetch the first files that hold so many tokens, by their own count and an end-of-text
    token a document; all files when absent."""
    token_count: str = "token_count"
    """Parquet column with a document's GPT-2 tokens, which `max_tokens` is held against."""

    @model_validator(mode="after")
    def _files_are_named_once(self) -> Hub:
        if bool(self.files) == bool(self.configuration):
            raise ValueError("name either files or a configuration")
        return self


class Fetched(Section):
    """Text that the stage `fetch_text` has fetched."""

    kind: Literal["fetched"]
    run: str
    """A run of `fetch_text`."""
    format: TextFormat = "auto"
    """As of `files`."""
    text: str = "text"
    """Column or key that holds a document's text."""
    id: str | None = None
    """Column or key whose hash decides a document's split; the text itself when absent."""
    separator: str | None = Field(default=None, min_length=1)
    """As of `files`."""


class Shards(Section):
    """Ready-made token shards in llm.c's format, tokenized by somebody else."""

    kind: Literal["shards"]
    train: tuple[str, ...] = Field(min_length=1)
    """Globs of the training shards."""
    validation: tuple[str, ...] = Field(min_length=1)
    """Globs of the validation shards."""


Source = Annotated[Docstrings | Files | Fetched | Shards, Field(discriminator="kind")]


class TextExecution(Section):
    """How a corpus is built. Never part of identity."""

    workers: int = Field(default=1, gt=0)
    """Processes."""
    backend: Literal["tiktoken", "fast"] = "tiktoken"
    """What encodes GPT-2's BPE. `fast` is gigatoken, an optional package, checked against
    tiktoken on a sample; the ids are the same."""
    tokenizer_files: str | None = None
    """Folder with GPT-2's encoder.json and vocab.bpe, when they are not to be looked for."""


class Corpus(Section):
    """One corpus of token shards."""

    source: Source
    tokenizer: Literal["bytes", "gpt2"] = "gpt2"
    validation_tokens: int = Field(ge=0)
    """Size of the validation split, to the nearest document above; with `shards`, the least
    that they must hold. 0 for no validation, which training needs."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Stop before the document that would exceed so many tokens, over both splits; with
    `shards`, read so many training tokens."""
    execution: TextExecution = TextExecution()

    def resolve(self, project: Path, key: str) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the parameters that bear on the tokens, and the user's files that are read.

        Args:
            project: folder that globs are relative to.
            key: where this corpus stands in params.yaml, for error messages.

        Raises:
            UserError: a package is not installed, or a glob matches nothing.
        """
        source, files = _resolve_source(self.source, project, f"{key}.source")
        params = {
            "source": source,
            "tokenizer": self.tokenizer,
            "validation_tokens": self.validation_tokens,
            "max_tokens": self.max_tokens,
        }
        return params, files


def _resolve_source(
    source: Docstrings | Files | Fetched | Shards, project: Path, key: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    if isinstance(source, Docstrings):
        versions = [[name, _public_version(name, key)] for name in source.packages]
        return {"kind": source.kind, "packages": versions}, ()
    if isinstance(source, Files):
        how = source.model_dump(exclude={"paths"})
        return how, _matches(source.paths, project, f"{key}.paths")
    if isinstance(source, Fetched):
        return source.model_dump(exclude={"run"}), ()
    train = _matches(source.train, project, f"{key}.train")
    validation = _matches(source.validation, project, f"{key}.validation")
    return {"kind": source.kind, "train_files": len(train)}, (*train, *validation)


def _public_version(package: str, key: str) -> str:
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError as error:
        raise UserError(f"{key}.packages: {package} is not installed") from error


def _matches(patterns: tuple[str, ...], project: Path, key: str) -> tuple[str, ...]:
    found: set[str] = set()
    for pattern in patterns:
        # Path.glob refuses absolute patterns
        matched = glob(pattern, root_dir=project, recursive=True)  # noqa: PTH207
        files = {path for path in matched if (project / path).is_file()}
        if not files:
            raise UserError(f"{key}: no file matches '{pattern}' (seen from {project})")
        found |= files
    return tuple(sorted(found))
