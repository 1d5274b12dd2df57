"""Trains one looped GPT: a cell of Table 1, or a point of the p-sweep.

The finished folder holds `model.safetensors` and `model.json` (which `deeploop.load` opens),
`metrics.json`, `history.json` and, where the plan names steps, `snapshots/step-<n>.safetensors`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from deeploop.errors import UserError
from deeploop.fileio import dump_json
from deeploop.nn.config import GPTConfig
from deeploop.nn.flops import training_flops_per_token
from deeploop.nn.gpt import LoopedGPT, build
from deeploop.nn.init import table
from deeploop.nn.weights import load_weights
from deeploop.text.order import TrainingWindows, ValidationWindows
from deeploop.text.shards import Tokens, TokenShards
from deeploop.training.checkpoint import write_tensors
from deeploop.training.config import Execution, Training
from deeploop.training.language_model_metrics import metrics, unigram_floor
from deeploop.training.launch import in_processes, work_off
from deeploop.training.loop import Trainer
from deeploop.training.optim import adamw
from deeploop.training.outputs import write_records
from deeploop.training.schedule import learning_rate_factor
from deeploop.training.task import Rows, Share
from deeploop.training.world import World, joined

VALIDATED_AT_ONCE = 16_384
"""Tokens of one forward in a validation. Fixed, so that executions round alike."""

log = logging.getLogger(__name__)


class LanguageModelTask:
    """A looped GPT on token windows, as the training loop wants it."""

    unit = "tokens"

    def __init__(
        self, config: GPTConfig, training: Training, tokens: Path, world: World, run: Execution
    ) -> None:
        """Build the model and open the data.

        Raises:
            UserError: the token files are missing, damaged or too small.
        """
        self.config, self.training, self.world = config, training, world
        recipe, length = training.recipe, config.backbone.context_length
        self.identity: Mapping[str, Any] = {
            "model": config.model_dump(mode="json"),
            "training": training.model_dump(mode="json"),
        }
        self.steps, self.rows = training.steps, recipe.batch_sequences
        self.units_per_step = self.rows * length
        self.flops_per_step = self.units_per_step * training_flops_per_token(config)
        self.grad_clip = recipe.grad_clip
        if recipe.grad_clip_reference == "sum":
            self.grad_clip /= recipe.sum_micro_steps
        self.snapshot_steps: Sequence[int] = training.snapshot_steps
        self.train_shards = TokenShards(tokens, "train")
        self.windows = TrainingWindows(self.train_shards, length, training.seed)
        self.validation = ValidationWindows(
            TokenShards(tokens, "validation"), length, training.validation.tokens
        )
        self.model = _built(config, training, world, run)
        self.module: nn.Module = self.model
        self.optimizers: Sequence[Optimizer] = (adamw(self.model, recipe),)

    def learning_rate_factor(self, step: int) -> float:
        """Return the recipe's fraction of the peak rate."""
        return learning_rate_factor(self.training.recipe, step)

    def load(self, rows: Rows) -> Tokens:
        """Return the rows' windows."""
        return self.windows.batch(rows.step, range(rows.start, rows.stop))

    def loss(self, model: nn.Module, rows: Rows, loaded: Tokens) -> Share:
        """Return the cross-entropy of the rows' windows as a share of the batch's mean."""
        inputs, targets = self._moved(loaded)
        with self.world.autocast(self.training.recipe.precision):
            mean: Tensor = model(inputs, targets)
        return Share(mean * (len(rows) / self.rows))

    def validates_after(self, steps: int) -> bool:
        """Validate on the grid, at the reported step and at the end."""
        on_grid = steps % self.training.validation.every_steps == 0
        return on_grid or steps in (self.training.report_step, self.steps)

    def validate(self) -> Mapping[str, float]:
        """Return the mean cross-entropy over the fixed validation windows, all ranks sharing.

        Window losses are summed in one order whatever the number of processes.
        """
        at_once = max(1, VALIDATED_AT_ONCE // self.config.backbone.context_length)
        losses = torch.zeros(len(self.validation), dtype=torch.float64, device=self.world.device)
        self.model.eval()
        starts = range(0, len(self.validation), at_once)
        for start in starts[self.world.rank :: self.world.size]:
            rows = range(start, min(start + at_once, len(self.validation)))
            inputs, targets = self._moved(self.validation.batch(rows))
            with self.world.autocast(self.training.recipe.precision):
                found = self.model.token_losses(inputs, targets)
            losses[rows.start : rows.stop] = found.double().mean(dim=1)
        self.model.train()
        return {"loss": self.world.sum(losses).mean().item()}

    def weights(self) -> Mapping[str, Tensor]:
        """Return the model's parameters."""
        return {name: value.contiguous() for name, value in self.model.state_dict().items()}

    def extra_state(self) -> Mapping[str, Tensor]:
        """Nothing: data order and draws are functions of the step."""
        return {}

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to take back."""

    def _moved(self, batch: Tokens) -> tuple[Tensor, Tensor]:
        tokens = torch.from_numpy(batch)
        if self.world.device.type == "cuda":
            tokens = tokens.pin_memory().to(self.world.device, non_blocking=True)
        tokens = tokens.long()
        return tokens[:, :-1], tokens[:, 1:]


@in_processes
def train_language_model(
    params: Mapping[str, Any],
    tokens_dir: Path,
    folder: Path,
    work: Path,
    execution: Mapping[str, Any],
    telemetry: Path,
    stop: Callable[[], bool],
    label: str = "train_lm",
    initial: Path | None = None,
) -> None:
    """Train, or go on training, and write the outputs into `folder`.

    Args:
        params: `model` (a `GPTConfig`) and `training` (a `Training`), resolved.
        tokens_dir: outputs of the tokenize stage.
        folder: where outputs go once training is complete.
        work: checkpoints and snapshots; outlives interruptions.
        execution: an `Execution`.
        telemetry: JSON lines of rates, appended.
        stop: polled every step.
        label: the run's name in progress and log.
        initial: a model folder whose weights the training starts from, instead of random ones.

    Raises:
        Interrupted: stopped in order; the same call resumes.
        UserError: data, model and execution do not fit together.
        BuildError: checkpoints cannot be written or used.
    """
    config = GPTConfig.model_validate(params["model"])
    training = Training.model_validate(params["training"])
    run = Execution.model_validate(execution)
    with joined(run) as world:
        task = LanguageModelTask(config, training, tokens_dir, world, run)
        if initial is not None:
            load_weights(task.module, initial / "model.safetensors")
        floor = unigram_floor(task.train_shards, task.validation, config.backbone.vocab_size)
        if world.is_first:
            for line in table(config):
                log.info(line)
        trainer = Trainer(task, world, run, work, label, stop)
        trainer.train(telemetry)
        with world.together():
            if world.is_first:
                _write_outputs(trainer, task, folder, floor, tokens_dir)


def _built(config: GPTConfig, training: Training, world: World, run: Execution) -> LoopedGPT:
    if training.recipe.precision == "bf16" and world.device.type == "cpu":
        log.info("bf16 on a CPU without AMX is far slower than fp32")
    dtype = torch.float64 if training.recipe.precision == "fp64" else torch.float32
    model = build(config, training.seed, world.device, dtype, run.checkpoint_rounds)
    if run.compile == "block":
        model.compile_blocks()
    elif run.compile == "model":
        model.compile()
    return model


def _write_outputs(
    trainer: Trainer, task: LanguageModelTask, folder: Path, floor: float, tokens_dir: Path
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / "model.safetensors", task.weights())
    found = metrics(trainer.history, task.training, floor, trainer.diverged)
    found["parameters"] = sum(parameter.numel() for parameter in task.model.parameters())
    found["tokens"] = found["steps"] * task.units_per_step
    model = {"config": task.config.model_dump(), "tokenizer": _tokenizer(tokens_dir)}
    (folder / "model.json").write_text(dump_json(model), encoding="utf-8")
    write_records(trainer, found, folder)


def _tokenizer(tokens_dir: Path) -> str:
    path = tokens_dir / "manifest.json"
    try:
        return str(json.loads(path.read_text())["tokenizer"]["name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} does not name the tokenizer: {error}; rebuild tokenize") from error


if __name__ == "__main__":
    work_off(train_language_model)
