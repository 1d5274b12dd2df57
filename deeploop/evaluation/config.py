"""What a downstream evaluation is: tasks, shots, source of the questions, precision.

Imports no torch and no harness: planning reads it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from deeploop.stage import Section

PAPER_TASKS = (
    "arc_challenge",
    "arc_easy",
    "hellaswag",
    "openbookqa",
    "piqa",
    "sciq",
    "social_iqa",
    "winogrande",
)
"""The eight tasks of the paper's Tables 2 and 4, by their names in lm-evaluation-harness."""

Source = Literal["hub", "mirror", "samples"]
Precision = Literal["fp32", "bf16"]


class Evaluation(Section):
    """Everything of an evaluation that bears on its numbers."""

    tasks: tuple[str, ...] = Field(default=PAPER_TASKS, min_length=1)
    """Names of lm-evaluation-harness; the average is over them, unweighted."""
    shots: tuple[int, ...] = Field(default=(0, 1), min_length=1)
    """Few-shot settings, each evaluated on every task."""
    source: Source = "hub"
    """`hub`: pinned revisions, fetched by `fetch_tasks`; `mirror`: local files in the official
    schemas; `samples`: the project's own questions, for demonstrations."""
    mirror: str | None = None
    """Folder of `<task>/<split>.parquet` or `.jsonl`, with `source: mirror`."""
    limit: int | None = Field(default=None, gt=0)
    """Only the first so many documents of each task."""
    batch_tokens: int = Field(default=16384, gt=0)
    """Padded tokens a forward pass; in bf16 it moves scores in the third digit."""
    precision: Precision = "bf16"
    """Of the blocks; head and log-softmax are always fp32."""

    @model_validator(mode="after")
    def _mirror_is_named(self) -> Evaluation:
        if (self.source == "mirror") != (self.mirror is not None):
            raise ValueError("`mirror` names a folder with `source: mirror`, and only then")
        if any(shots < 0 for shots in self.shots):
            raise ValueError("shots cannot be negative")
        return self


class EvaluationExecution(Section):
    """How an evaluation is carried out. Never part of identity."""

    processes: int = Field(default=1, gt=0)
    """Processes (GPUs of one machine) that share the forward passes."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = Field(default=1, gt=0)
    """CPU threads a process."""
