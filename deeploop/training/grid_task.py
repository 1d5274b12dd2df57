"""Trains the looped GPT on ARC, causally: the project page's second ARC entry.

The finished folder holds `model.safetensors` and `model.json` (which
`deeploop.nn.grid_gpt.load_grid_gpt` opens), `metrics.json`, `history.json` and, where the plan
names steps, `snapshots/step-<n>.safetensors`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from deeploop.fileio import dump_json
from deeploop.nn.config import GPTConfig
from deeploop.nn.flops import training_flops_per_token
from deeploop.nn.grid_gpt import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    GridGPT,
    build_grid_gpt,
    describe_grid_gpt,
    sized,
)
from deeploop.nn.init import table
from deeploop.training.checkpoint import write_tensors
from deeploop.training.config import Execution
from deeploop.training.grid_config import GridTraining
from deeploop.training.launch import in_processes, work_off
from deeploop.training.loop import Trainer
from deeploop.training.optim import adamw, with_peak_rates
from deeploop.training.outputs import write_records
from deeploop.training.puzzle_order import PuzzleOrder, PuzzleRows, Rendered
from deeploop.training.puzzle_validation import puzzle_scores
from deeploop.training.schedule import learning_rate_factor
from deeploop.training.sparse_sign import SparseSignSGD
from deeploop.training.splits import verified_splits
from deeploop.training.task import Rows, Share
from deeploop.training.world import World, joined

VALIDATED_AT_ONCE = 16
"""Rows of one forward in a validation. Fixed, so that executions round alike."""
LAST_STEPS = 100
"""Updates over which `metrics.json` averages."""
SCORES = ("loss", "accuracy", "exact_accuracy")

log = logging.getLogger(__name__)


class Sequences(NamedTuple):
    """Rows of a data set on a device."""

    inputs: Tensor
    """[rows, T], int64."""
    outputs: Tensor
    """[rows, T], int64."""
    identifiers: Tensor
    """[rows], int64."""


class GridTask:
    """The looped GPT on puzzles, as the training loop wants it."""

    unit = "puzzles"

    def __init__(
        self,
        config: GPTConfig,
        training: GridTraining,
        data: Mapping[str, PuzzleRows],
        world: World,
        run: Execution,
    ) -> None:
        """Build the model and the order of its data.

        Args:
            config: the architecture, sized for the data.
            training: recipe, length and seed.
            data: the splits `train` and `test`.
            world: this process among the others.
            run: how the training is carried out.

        Raises:
            UserError: the data cannot be trained on.
        """
        self.config, self.training, self.data, self.world = config, training, data, world
        recipe = training.recipe
        self.identity: Mapping[str, Any] = {
            "model": config.model_dump(mode="json"),
            "training": training.model_dump(mode="json"),
            "data": {split: rows.count for split, rows in data.items()},
        }
        self.steps, self.grad_clip = training.steps, recipe.grad_clip
        self.rows = self.units_per_step = recipe.batch_sequences
        tokens = self.rows * config.backbone.context_length
        self.flops_per_step = tokens * training_flops_per_token(config)
        self.snapshot_steps: Sequence[int] = training.snapshot_steps
        self.order = PuzzleOrder(data["train"], self.rows, training.seed)
        self.model = _built(config, training, data["train"].identifiers, world, run)
        self.module: nn.Module = self.model
        rates = training.puzzle_learning_rate, training.puzzle_weight_decay
        self.puzzle_optimizer = SparseSignSGD(self.model.puzzles, *rates, world)
        self.optimizers: Sequence[Optimizer] = (
            adamw(self.model, recipe),
            with_peak_rates(self.puzzle_optimizer),
        )

    def learning_rate_factor(self, step: int) -> float:
        """Return the recipe's fraction of the peak rates."""
        return learning_rate_factor(self.training.recipe, step)

    def load(self, rows: Rows) -> Rendered:
        """Return the rows' puzzles."""
        chosen = self.order.rows(rows.step, range(rows.start, rows.stop))
        return self.data["train"].render(chosen)

    def loss(self, model: nn.Module, rows: Rows, loaded: Rendered) -> Share:
        """Return the mean cross-entropy of the rows' output tokens, as a share of the batch's."""
        batch = self._sequences(loaded)
        puzzles = self.puzzle_optimizer.borrow(batch.identifiers)
        loss, *right = self._scores(model, batch, puzzles).sum(1) / self.rows
        return Share(loss, dict(zip(SCORES[1:], (part.detach() for part in right), strict=True)))

    def validates_after(self, steps: int) -> bool:
        """Validate on the grid and at the end."""
        every = self.training.validation.every_steps
        return steps == self.steps or (every is not None and steps % every == 0)

    def validate(self) -> Mapping[str, float]:
        """Return scores on fixed rows of both splits, all ranks sharing the work.

        A row counts for `exact_accuracy` when every output token is the most probable one after
        the right ones before it: exactly then greedy decoding writes the whole square right.
        """
        rows = self.training.validation.rows
        return puzzle_scores(
            self.model, self.data, rows, SCORES, self._validated, self.world, VALIDATED_AT_ONCE
        )

    def weights(self) -> Mapping[str, Tensor]:
        """Return the model's weights, the puzzle embedding among them."""
        return {name: value.contiguous() for name, value in self.model.state_dict().items()}

    def extra_state(self) -> Mapping[str, Tensor]:
        """Nothing: data order and draws are functions of the step."""
        return {}

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to take back."""

    def _sequences(self, rendered: Rendered) -> Sequences:
        parts = (torch.from_numpy(part) for part in rendered)
        return Sequences(*(part.to(self.world.device).long() for part in parts))

    def _scores(self, model: nn.Module, batch: Sequences, puzzles: Tensor) -> Tensor:
        """Return every row's `SCORES`, fp32 or wider [3, rows]."""
        with self.world.autocast(self.training.recipe.precision):
            logits = model(batch.inputs, batch.outputs, puzzles)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        losses = F.cross_entropy(logits.transpose(1, 2), batch.outputs, reduction="none")
        right = logits.argmax(-1) == batch.outputs
        rows = losses.mean(1), right.to(losses).mean(1), right.all(1).to(losses)
        return torch.stack(rows)

    def _validated(self, rendered: Rendered) -> Tensor:
        """Return every row's `SCORES` without gradients, fp64 [3, rows]."""
        batch = self._sequences(rendered)
        with torch.inference_mode():
            puzzles = self.model.puzzles[batch.identifiers]
            return self._scores(self.model, batch, puzzles).double()


@in_processes
def train_grid_gpt(
    params: Mapping[str, Any],
    data_folder: Path,
    folder: Path,
    work: Path,
    execution: Mapping[str, Any],
    telemetry: Path,
    stop: Callable[[], bool],
    label: str = "train_arc_lm",
) -> None:
    """Train, or go on training, and write the outputs into `folder`.

    Args:
        params: `model` (a `GPTConfig`, whose context and vocabulary the data decide) and
            `training` (a `GridTraining`), resolved.
        data_folder: outputs of `build_arc`.
        folder: where outputs go once training is complete.
        work: checkpoints and snapshots; outlives interruptions.
        execution: an `Execution`.
        telemetry: JSON lines of rates, appended.
        stop: polled every step.
        label: the run's name in progress and log.

    Raises:
        Interrupted: stopped in order; the same call resumes.
        UserError: data, model and execution do not fit together.
        BuildError: the data are not as they were built, or checkpoints cannot be written or used.
    """
    training = GridTraining.model_validate(params["training"])
    data = verified_splits(data_folder, training.seed)
    config = sized(params["model"], data["train"].tokens, data["train"].vocabulary)
    run = Execution.model_validate(execution)
    with joined(run) as world:
        task = GridTask(config, training, data, world, run)
        if world.is_first:
            for line in table(config):
                log.info(line)
        trainer = Trainer(task, world, run, work, label, stop)
        trainer.train(telemetry)
        with world.together():
            if world.is_first:
                _write_outputs(trainer, task, folder)


def _built(
    config: GPTConfig, training: GridTraining, identifiers: int, world: World, run: Execution
) -> GridGPT:
    dtype = torch.float64 if training.recipe.precision == "fp64" else torch.float32
    model = build_grid_gpt(config, identifiers, training.seed, world.device, dtype)
    model.gpt.checkpoint_rounds = run.checkpoint_rounds
    if run.compile == "block":
        model.gpt.compile_blocks()
    elif run.compile == "model":
        model.compile()
    return model


def _write_outputs(trainer: Trainer, task: GridTask, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / WEIGHTS_FILE, task.weights())
    precision = task.training.recipe.precision
    described = describe_grid_gpt(task.config, task.model.identifiers, precision)
    (folder / CONFIG_FILE).write_text(dump_json(described), encoding="utf-8")
    write_records(trainer, _metrics(trainer, task), folder)


def _metrics(trainer: Trainer, task: GridTask) -> dict[str, Any]:
    history = trainer.history
    names = SCORES if len(history) else ()
    last = {f"train_{name}_last": history.mean_of_last(name, LAST_STEPS) for name in names}
    return last | {
        "outcome": "diverged" if trainer.diverged else "trained",
        "steps": trainer.step,
        "puzzles": trainer.step * task.rows,
        "parameters": sum(parameter.numel() for parameter in task.model.parameters()),
        "puzzle_parameters": task.model.puzzles.numel(),
        "train_loss_first": history.columns["loss"][0] if names else None,
        "validation": history.validations[-1] if history.validations else None,
    }


if __name__ == "__main__":
    work_off(train_grid_gpt)
