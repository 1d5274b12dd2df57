"""Trains one HRM on puzzles: an arm of Table 3, or a point of HRM's p-sweep.

The finished folder holds `model.safetensors` and `model.json`, `metrics.json`, `history.json` and,
where the plan names steps, `snapshots/step-<n>.safetensors`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from deeploop.draws import uniform
from deeploop.errors import UserError
from deeploop.nn.hrm import HRM, initialise, residual_branches
from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.hrm_flops import training_flops
from deeploop.nn.hrm_halting import (
    Batch,
    Carry,
    Exploration,
    admit,
    empty_carry,
    segment_loss,
    think_fully,
    train_segment,
)
from deeploop.nn.hrm_weights import save_model
from deeploop.nn.stablemax import IGNORED_LABEL
from deeploop.training.adam_atan2 import AdamATan2
from deeploop.training.config import Execution
from deeploop.training.hrm_config import HRMTraining, learning_rate_factor
from deeploop.training.loop import Trainer
from deeploop.training.optim import with_peak_rates
from deeploop.training.outputs import write_records
from deeploop.training.puzzle_order import (
    PuzzleOrder,
    PuzzleRows,
    Rendered,
    published_steps,
)
from deeploop.training.puzzle_validation import puzzle_scores
from deeploop.training.sparse_sign import SparseSignSGD
from deeploop.training.task import Rows, Share
from deeploop.training.world import World, joined

PAD = 0
"""Token outside a grid; no answer is asked there."""
VALIDATED_AT_ONCE = 64
"""Rows of one forward in a validation. Fixed, so that executions round alike."""
LAST_STEPS = 100
"""Updates over which `metrics.json` averages."""

SCORES = ("exact_accuracy", "accuracy", "halt_probability")

log = logging.getLogger(__name__)


class HRMTask:
    """HRM on puzzles, as the training loop wants it. Each row keeps its carry between steps."""

    unit = "puzzles"
    grad_clip = 0.0

    def __init__(
        self,
        config: HRMConfig,
        training: HRMTraining,
        data: Mapping[str, PuzzleRows],
        world: World,
        run: Execution,
    ) -> None:
        """Build the model and the order of its data.

        Args:
            config: the architecture.
            training: recipe, length and seed.
            data: the splits `train` and `test`.
            world: this process among the others.
            run: how the training is carried out.

        Raises:
            UserError: data and model do not fit together.
        """
        self.config, self.training, self.data, self.world = config, training, data, world
        recipe = training.recipe
        self.identity: Mapping[str, Any] = {
            "model": config.model_dump(mode="json"),
            "training": training.model_dump(mode="json"),
            "data": {split: rows.count for split, rows in data.items()},
        }
        _check_fit(config, data["train"])
        self.rows = self.units_per_step = recipe.batch_rows
        epochs = published_steps(data["train"], training.epochs or 0, self.rows)
        self.share = len(world.share(self.rows))
        self.steps = training.steps or epochs
        self.flops_per_step = self.rows * training_flops(config)
        self.snapshot_steps: Sequence[int] = training.snapshot_steps
        self.order = PuzzleOrder(data["train"], self.rows, training.seed)
        self.model = HRM(config)
        initialise(self.model, training.seed)
        self.model.to(world.device)
        self.model.compile_as(run.compile)
        self.module: nn.Module = self.model
        self.optimizers, self.puzzle_optimizer = _optimizers(self.model, training, world)
        self.carries: dict[int, Carry] = {}
        self.restored: Carry | None = None

    def learning_rate_factor(self, step: int) -> float:
        """Return the published schedule's fraction of the rates."""
        return learning_rate_factor(self.training.recipe, step, self.steps)

    def load(self, rows: Rows) -> Rendered:
        """Return the puzzles that stand ready for the rows."""
        chosen = self.order.rows(rows.step, range(rows.start, rows.stop))
        return self.data["train"].render(chosen)

    def loss(self, model: nn.Module, rows: Rows, loaded: Rendered) -> Share:
        """Return one segment's loss on the rows, as a share of the batch's mean."""
        batch = to_batch(loaded, self.world.device)
        carry = admit(self.model, self._carried(rows, batch), batch)
        puzzle = None
        if self.puzzle_optimizer is not None:
            puzzle = self.puzzle_optimizer.borrow(carry.current.puzzles)
        segment = train_segment(self.model, carry, puzzle, self._draws(rows), forward=model)
        self.carries[rows.start] = segment.carry
        if sum(len(carry.steps) for carry in self.carries.values()) == self.share:
            self.restored = None
        total, sums = segment_loss(self.model, segment)
        means = {name: value / self.rows for name, value in sums.items() if "loss" in name}
        return Share(total / self.rows, sums | means)

    def validates_after(self, steps: int) -> bool:
        """Validate on the grid and at the end."""
        every = self.training.validation.every_steps
        return steps == self.steps or (every is not None and steps % every == 0)

    def validate(self) -> Mapping[str, float]:
        """Return accuracies on fixed rows of both splits, all ranks sharing the work.

        `exact_accuracy` is the share of rows whose every token is right, `accuracy` the mean
        share of right tokens; the mean halting probability tells how sure the model is.
        """
        rows = self.training.validation.rows
        return puzzle_scores(
            self.model, self.data, rows, SCORES, self._scores, self.world, VALIDATED_AT_ONCE
        )

    def weights(self) -> Mapping[str, Tensor]:
        """Return the model's weights, the puzzle embedding among them."""
        return {name: value.contiguous() for name, value in self.model.state_dict().items()}

    def extra_state(self) -> Mapping[str, Tensor]:
        """Return what every row carries, all processes' rows in global order."""
        parts = [self.carries[start].tensors() for start in sorted(self.carries)]
        names = parts[0].keys() if parts else ()
        return {
            name: self.world.gather(torch.cat([part[name] for part in parts])) for name in names
        }

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `extra_state` returned."""
        self.carries = {}
        self.restored = None
        if state:
            moved = {name: value.to(self.world.device) for name, value in state.items()}
            self.restored = Carry.of(moved)

    def _carried(self, rows: Rows, batch: Batch) -> Carry:
        if rows.start in self.carries:
            return self.carries[rows.start]
        if self.restored is not None:
            tensors = self.restored.tensors()
            return Carry.of({k: v[rows.start : rows.stop] for k, v in tensors.items()})
        return empty_carry(self.model, batch)

    def _draws(self, rows: Rows) -> Exploration:
        seed, here = self.training.seed, slice(rows.start, rows.stop)
        explore = uniform(seed, "explore", rows.step, self.rows)[here]
        length = uniform(seed, "segments", rows.step, self.rows)[here]
        segments = 2 + (length * (self.config.halt_max_steps - 1)).astype(np.int32)
        return Exploration(
            torch.from_numpy(explore).to(self.world.device),
            torch.from_numpy(segments).to(self.world.device),
        )

    def _scores(self, rendered: Rendered) -> Tensor:
        """Return every row's `SCORES`, fp64 [3, rows]."""
        batch = to_batch(rendered, self.world.device)
        thought = think_fully(self.model, batch)
        asked = batch.labels != IGNORED_LABEL
        right = (asked & (thought.logits.argmax(-1) == batch.labels)).sum(-1)
        counts = asked.sum(-1)
        halt = thought.q_halt.double().sigmoid()
        return torch.stack([(right == counts).double(), right / counts.double(), halt])


def to_batch(rendered: Rendered, device: torch.device) -> Batch:
    """Return rows as tensors on `device`; padding asks for no answer."""
    inputs, labels, puzzles = (torch.from_numpy(part) for part in rendered)
    wanted = labels.to(device).int()
    wanted = wanted.masked_fill(wanted == PAD, IGNORED_LABEL)
    return Batch(inputs.to(device).int(), wanted, puzzles.to(device))


def train_hrm(
    params: Mapping[str, Any],
    data: Mapping[str, PuzzleRows],
    folder: Path,
    work: Path,
    execution: Mapping[str, Any],
    telemetry: Path,
    stop: Callable[[], bool],
    label: str = "train_hrm",
) -> None:
    """Train, or go on training, and write the outputs into `folder`.

    Args:
        params: `model` (an `HRMConfig` without the sizes that the data decide) and `training`
            (an `HRMTraining`), resolved.
        data: the splits `train` and `test`.
        folder: where outputs go once training is complete.
        work: checkpoints and snapshots; outlives interruptions.
        execution: an `Execution`.
        telemetry: JSON lines of rates, appended.
        stop: polled every step.
        label: the run's name in progress and log.

    Raises:
        Interrupted: stopped in order; the same call resumes.
        UserError: data, model and execution do not fit together.
        BuildError: checkpoints cannot be written or used.
    """
    training = HRMTraining.model_validate(params["training"])
    config = sized(params["model"], data["train"])
    run = Execution.model_validate(execution)
    with joined(run) as world:
        task = HRMTask(config, training, data, world, run)
        if world.is_first:
            for line in scaling_table(task.model):
                log.info(line)
        trainer = Trainer(task, world, run, work, label, stop)
        trainer.train(telemetry)
        with world.together():
            if world.is_first:
                _write_outputs(trainer, task, folder)


def sized(model: Mapping[str, Any], data: PuzzleRows) -> HRMConfig:
    """Return the architecture with the sizes that a data set decides."""
    sizes = {
        "sequence_length": data.tokens,
        "vocab_size": data.vocabulary,
        "identifiers": data.identifiers,
    }
    return HRMConfig.model_validate(sizes | dict(model))


def scaling_table(model: HRM) -> list[str]:
    """Return lines that say what the scaling rule does: alpha, beta, and to which matrices."""
    config = model.config
    parameters = sum(parameter.numel() for parameter in model.parameters())
    scaled = sum(branch.numel() for branch, _ in residual_branches(model))
    return [
        f"rule {config.scaling.rule}: N_g {config.gradient_depth:g}, "
        f"alpha_H {config.alpha('H'):.4f}, alpha_L {config.alpha('L'):.4f}, "
        f"beta_H {config.beta('H'):.4f}, beta_L {config.beta('L'):.4f}",
        f"{parameters:,} parameters, {scaled:,} of them scaled by beta "
        f"({config.scaling.beta_targets}); {config.identifiers:,} puzzle identifiers",
    ]


def _check_fit(config: HRMConfig, data: PuzzleRows) -> None:
    for name, ours, theirs in (
        ("sequence_length", config.sequence_length, data.tokens),
        ("vocab_size", config.vocab_size, data.vocabulary),
        ("identifiers", config.identifiers, data.identifiers),
    ):
        if ours != theirs:
            raise UserError(f"the model's {name} is {ours}, the data set's {theirs}")


def _optimizers(
    model: HRM, training: HRMTraining, world: World
) -> tuple[Sequence[Optimizer], SparseSignSGD | None]:
    recipe = training.recipe
    betas = (recipe.beta1, recipe.beta2)
    dense = with_peak_rates(
        AdamATan2(model.parameters(), recipe.learning_rate, betas, recipe.weight_decay)
    )
    if not model.config.puzzle_embedding_size:
        return (dense,), None
    rates = recipe.puzzle_learning_rate, recipe.puzzle_weight_decay
    sparse = SparseSignSGD(model.puzzle_emb.weights, *rates, world)
    return (dense, with_peak_rates(sparse)), sparse


def _write_outputs(trainer: Trainer, task: HRMTask, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_model(folder, task.config, task.weights())
    write_records(trainer, _metrics(trainer, task), folder)


def _metrics(trainer: Trainer, task: HRMTask) -> dict[str, Any]:
    history = trainer.history
    last = {name: history.mean_of_last(name, LAST_STEPS) for name in history.columns}
    scored = max(last.get("count", 0.0), 1e-9)
    validations = history.validations
    return {
        "outcome": "diverged" if trainer.diverged else "trained",
        "steps": trainer.step,
        "puzzles": trainer.step * task.rows,
        "parameters": sum(parameter.numel() for parameter in task.model.parameters()),
        "puzzle_parameters": task.config.identifiers * task.config.puzzle_embedding_size,
        "train_loss_first": _first(history.columns.get("loss", [])),
        "train_loss_last": last.get("loss"),
        "train_exact_accuracy_last": last.get("exact_accuracy", 0.0) / scored,
        "train_accuracy_last": last.get("accuracy", 0.0) / scored,
        "segments_last": last.get("steps", 0.0) / scored,
        "validation": validations[-1] if validations else None,
    }


def _first(values: Sequence[float]) -> float | None:
    return values[0] if values else None
