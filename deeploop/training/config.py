"""What a language-model training is, beside its architecture: the recipe and the run.

Imports no torch: planning reads it. Execution (processes, micro-batch, intervals) is apart, in
`Execution`, because it must not bear on the result.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deeploop.errors import UserError
from deeploop.stage import Section

LoggerName = Literal["tensorboard", "wandb", "trackio"]


class Recipe(Section):
    """Optimizer, schedule and batch: what the paper leaves open is chosen and documented here."""

    learning_rate: float = Field(gt=0)
    """Peak."""
    min_learning_rate: float = Field(default=0.0, ge=0)
    """Where the cosine ends."""
    warmup_steps: int = Field(ge=0)
    """Linear, from 0; step s (from 0) uses learning_rate * (s + 1) / warmup_steps."""
    schedule: Literal["cosine", "constant"] = "cosine"
    decay_steps: int = Field(default=100_000, gt=0)
    """Step at which the cosine reaches min_learning_rate; a shorter run stops before it."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.95, ge=0, lt=1)
    epsilon: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.1, ge=0)
    """Decoupled; on matrices and the embedding, not on gains."""
    grad_clip: float = Field(default=1.0, ge=0)
    """Global norm; 0 does not clip."""
    grad_clip_reference: Literal["mean", "sum"] = "mean"
    """Whether the limit is on the mean gradient, or on the sum over `sum_micro_steps` micro-steps
    as in the paper's ancestor code, which does not divide the accumulated loss."""
    sum_micro_steps: int = Field(default=1, gt=0)
    """With `grad_clip_reference: sum`, the micro-steps that the limit stands for."""
    batch_sequences: int = Field(gt=0)
    """Sequences a step, over all devices (the paper: 480)."""
    precision: Literal["fp32", "bf16", "fp64"] = "bf16"
    """Autocast for the matrix products; weights and optimizer are fp32 (fp64: all)."""


class Validation(Section):
    """The grid of validations: which steps, which tokens. Part of a run's identity."""

    every_steps: int = Field(gt=0)
    tokens: int = Field(gt=0)
    """The first so many validation tokens, in whole context windows."""


class Training(Section):
    """One training run, apart from architecture and data."""

    recipe: Recipe
    steps: int = Field(gt=0)
    seed: int = Field(ge=0)
    validation: Validation
    report_step: int | None = Field(default=None, gt=0)
    """Step whose validation loss is reported; the last step when absent (p-sweep: 2,000)."""
    snapshot_steps: tuple[int, ...] = ()
    """Steps after which weights are kept as outputs, for later analysis."""
    floor_margin: float = Field(default=0.2, ge=0)
    """A run whose last validation stays above the unigram floor minus this (nats) ends as
    `floor`: it never learned more than token frequencies."""


class Execution(Section):
    """How a training is carried out. Never part of identity."""

    processes: int = Field(default=1, gt=0)
    """Processes (GPUs), over all nodes."""
    nodes: int = Field(default=1, gt=0)
    """More than one needs a Slurm job."""
    micro_batch: int | None = Field(default=None, gt=0)
    """Sequences a device takes at once; chosen to fit `batch_sequences` when absent."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = Field(default=1, gt=0)
    """CPU threads a process."""
    compile: Literal["none", "block", "model"] = "none"
    checkpoint_rounds: bool = False
    """Recompute each round's activations in the backward pass, to save memory."""
    deterministic: bool = True
    """Kernels that sum in a fixed order: the same bytes again on the same devices."""
    checkpoint_minutes: float = Field(default=15.0, gt=0)
    log_every_steps: int = Field(default=10, gt=0)
    loggers: tuple[LoggerName, ...] = ()
    """Dashboards beside the telemetry's JSON lines; offline, and each a package of its own."""
    budget_minutes: float | None = Field(default=None, gt=0)
    """Stop in order (exit 75, resumable) after so long."""


def rows_each(rows: int, processes: int) -> int:
    """Return how many rows of a batch each process takes.

    Raises:
        UserError: when the rows cannot be divided evenly.
    """
    if rows % processes:
        raise UserError(
            f"{processes} processes do not divide the {rows} rows of a batch: "
            "choose a number of processes that does"
        )
    return rows // processes
