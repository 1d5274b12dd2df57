"""Stage `tokenize`: text to token shards, one run a corpus.

params.yaml maps a corpus's name to its settings:

    tokenize:
      docstrings:
        source: {kind: docstrings}
        tokenizer: bytes
        validation_tokens: 200_000
      mine:
        source: {kind: files, paths: ["texts/*.jsonl.zst"], text: text, id: id}
        tokenizer: gpt2
        validation_tokens: 1_000_000
      fineweb_edu:
        source: {kind: fetched, run: fineweb_edu_50bt, id: id}
        tokenizer: gpt2
        max_tokens: 50e9
        validation_tokens: 25e6

A run's outputs are `train-*.bin`, `validation-*.bin` and `manifest.json`. The manifest says
nothing of the source, so that text which comes out as the same tokens starts no training; the
source's identity is in the run's specification.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from time import time
from typing import Any

from pydantic import ConfigDict, Field

from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage
from deeploop.text.budget import corpus_budget
from deeploop.text.config import Corpus, Fetched, TextExecution


class TrainingCorpus(Corpus):
    """A corpus to train on: it has a validation split."""

    validation_tokens: int = Field(gt=0)


class Corpora(Section):
    """Corpora by name; the name is the run's."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, TrainingCorpus]


def expand(section: Corpora, plan: Planned) -> Iterator[Draft]:
    """Plan one run a corpus.

    Raises:
        UserError: a package is not installed, or a glob matches nothing.
    """
    for name, corpus in section.__pydantic_extra__.items():
        params, files = corpus.resolve(plan.root, key=name)
        source = corpus.source
        yield Draft(
            name=name,
            params=params,
            inputs=(("fetch_text", source.run),) if isinstance(source, Fetched) else (),
            files=files,
            execution=corpus.execution.model_dump(),
            resources=_resources(params, corpus.execution),
        )


def _resources(params: Mapping[str, Any], execution: TextExecution) -> Resources:
    budget = corpus_budget(params, execution.model_dump())
    return Resources(
        cpus=execution.workers,
        memory_gb=max(4.0, 0.5 * (execution.workers + 1)),
        minutes=30 + round(90 * budget.hours) if budget else 30,
    )


def run(job: Job) -> None:
    """Build the token shards of one corpus."""
    from deeploop.text.build import build_tokens
    from deeploop.text.fetch import fetched_files

    fetched = job.params["source"]["kind"] == "fetched"
    files = fetched_files(job.input("fetch_text").folder) if fetched else job.files
    with job.telemetry.open("a") as log:
        build_tokens(
            job.params,
            files,
            job.folder,
            job.work,
            job.execution,
            job.stop,
            report=lambda unit: print(json.dumps({"time": time(), **unit}), file=log, flush=True),
        )


STAGE = Stage(
    name="tokenize",
    about="text to token shards",
    section=Corpora,
    expand=expand,
    pinned=True,
    libraries=("numpy", "pyarrow", "tiktoken"),
)
