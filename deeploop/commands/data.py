"""Make token shards outside a suite, and look into them.

deeploop data build --source 'texts/*.parquet' --tokenizer gpt2 --out tokens
deeploop data inspect tokens
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

HELP = "make token shards from text, and inspect them"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    commands = parser.add_subparsers(
        dest="data_command", metavar="COMMAND", required=True, help="build or inspect"
    )
    _configure_build(
        commands.add_parser(
            "build",
            help="text to token shards, as the stage does",
            description="text to token shards, as the stage does",
        )
    )
    _configure_inspect(
        commands.add_parser(
            "inspect",
            help="what token shards hold, and is wrong",
            description="what token shards hold, and is wrong",
        )
    )


def _configure_build(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source", action="append", required=True, metavar="GLOB", help="text files; repeatable")
    add("--tokenizer", choices=("gpt2", "bytes"), default="gpt2", help="GPT-2 BPE, or bytes")
    add("--out", type=Path, required=True, metavar="DIR", help="where *.bin and manifest.json go")
    add("--workers", type=int, default=_cores(), help="processes; all cores if absent")
    add(
        "--backend",
        choices=("tiktoken", "fast"),
        default="tiktoken",
        help="what encodes GPT-2's BPE; `fast` is gigatoken, an optional package",
    )
    add(
        "--format",
        choices=("auto", "parquet", "jsonl", "text"),
        default="auto",
        help="of the files; by their suffix when auto",
    )
    add("--text", default="text", metavar="NAME", help="column or key of the text")
    add("--id", metavar="NAME", help="column or key that decides the split; else the text")
    add("--separator", help="where a text file is cut into documents; one document if absent")
    add("--validation-tokens", type=float, default=0, metavar="N", help="0 for no such split")
    add("--max-tokens", type=float, metavar="N", help="stop after so many tokens")
    add("--tokenizer-files", metavar="DIR", help="folder with encoder.json and vocab.bpe")


def _cores() -> int:
    """Return the cores this process may use; a batch system gives it fewer than there are."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _configure_inspect(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", type=Path, metavar="PATH", help="a folder of token shards, or one shard")
    add("--tokenizer", choices=("gpt2", "bytes"), help="if no manifest.json names it")
    add("--samples", type=int, default=3, metavar="N", help="documents to show of each split")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    return _build(args) if args.data_command == "build" else _inspect(args)


def _build(args: argparse.Namespace) -> int:
    from deeploop.text.standalone import build_folder

    corpus = {
        "source": {
            "kind": "files",
            "paths": args.source,
            "format": args.format,
            "text": args.text,
            "id": args.id,
            "separator": args.separator,
        },
        "tokenizer": args.tokenizer,
        "validation_tokens": args.validation_tokens,
        "max_tokens": args.max_tokens,
        "execution": {
            "workers": args.workers,
            "backend": args.backend,
            "tokenizer_files": args.tokenizer_files,
        },
    }
    manifest = build_folder(corpus, args.out)
    for split, held in manifest["splits"].items():
        parts = len(held["parts"])
        print(f"{split}: {held['tokens']:,} tokens, {held['documents']:,} documents, {parts} parts")
    return 0


def _inspect(args: argparse.Namespace) -> int:
    from deeploop.errors import EXIT_FAILURE
    from deeploop.text.inspection import as_text, inspect_shards

    found = inspect_shards(args.path, args.tokenizer, args.samples)
    print(as_text(found))
    return EXIT_FAILURE if found.problems else 0
