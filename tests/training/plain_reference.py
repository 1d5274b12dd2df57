"""Write HRM reference files with the plain implementation, in the published files' format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from bench.plain_hrm import (
    PlainAdamATan2,
    PlainHRM,
    evaluate,
    first_carry,
    plain_loss,
    plain_sign_sgd,
    train_step,
)
from deeploop.nn.hrm_config import from_published

PREFIX = "model.inner."
SETTINGS = {
    "lr": "0.001",
    "wd": "0.1",
    "betas": "(0.9, 0.95)",
    "emb_lr": "0.01",
    "emb_wd": "0.1",
}
SMALL: dict[str, Any] = {
    "batch_size": 4,
    "seq_len": 9,
    "puzzle_emb_ndim": 32,
    "num_puzzle_identifiers": 6,
    "vocab_size": 12,
    "H_cycles": 2,
    "L_cycles": 2,
    "H_layers": 1,
    "L_layers": 2,
    "hidden_size": 32,
    "expansion": 4.0,
    "num_heads": 2,
    "pos_encodings": "rope",
    "halt_max_steps": 3,
    "halt_exploration_prob": 0.5,
    "forward_dtype": "float32",
    "causal": False,
}


def random_batch(published: dict[str, Any], generator: torch.Generator) -> dict[str, Tensor]:
    """Return a batch with ignored labels and a repeated identifier."""
    rows, length = published["batch_size"], published["seq_len"]

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(0, high, shape, generator=generator, dtype=torch.int32)

    labels = draw(published["vocab_size"], rows, length)
    labels[draw(4, rows, length) == 0] = -100
    puzzles = draw(published["num_puzzle_identifiers"], rows)
    puzzles[1] = puzzles[0]
    return {
        "inputs": draw(published["vocab_size"], rows, length),
        "labels": labels,
        "puzzle_identifiers": puzzles,
    }


def plain_model(published: dict[str, Any], seed: int = 0) -> PlainHRM:
    """Return a plain model with random weights, nothing at its special start value."""
    model = PlainHRM(from_published(published))
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.state_dict().items():
        std = 1.0 if "init" in name else tensor.shape[-1] ** -0.5
        values = torch.randn(tensor.shape, generator=generator) * std
        tensor.copy_(values)
    return model


def record(published: dict[str, Any], steps: int = 3) -> dict[str, Tensor]:
    """Return the tensors of a reference file: `steps` training steps, then an evaluation."""
    model = plain_model(published)
    tensors = _named("param.", model.state_dict())
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = PlainAdamATan2(parameters, lr=1e-3, betas=(0.9, 0.95), wd=0.1)
    batches, draws = torch.Generator().manual_seed(7), torch.Generator().manual_seed(1234)
    rows = published["batch_size"]
    carry = None
    for step in range(steps):
        batch = random_batch(published, batches)
        if step == 0:
            batch["labels"][-1] = -100
        carry = carry or first_carry(model, batch)
        uniform = torch.rand(rows, generator=draws)
        most = max(published["halt_max_steps"], 2) + 1
        least = torch.randint(2, most, (rows,), generator=draws, dtype=torch.int32)
        loss, carry, outputs, puzzle = train_step(model, carry, batch, uniform, least)
        (loss / rows).backward()
        recorded = {f"batch.{name}": tensor for name, tensor in batch.items()}
        recorded |= {"loss": loss, **outputs}
        recorded |= {f"carry.{name}": tensor for name, tensor in carry.items()}
        recorded["carry.halted"] = carry["halted"].to(torch.uint8)
        recorded |= {f"grad.{PREFIX}{n}": p.grad for n, p in model.named_parameters()}
        if puzzle is not None:
            recorded["grad.puzzle_emb_local"] = puzzle.grad
            ids = carry["current.puzzle_identifiers"]
            plain_sign_sgd(model.puzzle_emb.weights, ids, puzzle.grad, 0.01, 0.1)
        tensors |= {
            f"step{step}.{name}": tensor.detach().clone() for name, tensor in recorded.items()
        }
        optimizer.step()
        model.zero_grad()
        tensors |= _named(f"step{step}.after.", model.state_dict())
    return tensors | _evaluation(model, random_batch(published, batches))


def write_reference(path: Path, tensors: dict[str, Tensor], published: dict[str, Any]) -> Path:
    """Write a reference file."""
    save_file(tensors, path, {"cfg": json.dumps(published), **SETTINGS})
    return path


def _evaluation(model: PlainHRM, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    outputs = evaluate(model, batch)
    rows = len(batch["inputs"])
    stop, steps = torch.ones(rows, dtype=torch.bool), torch.zeros(rows)
    loss, _ = plain_loss(model, outputs, batch["labels"], stop, steps)
    tensors = {f"eval.batch.{name}": tensor for name, tensor in batch.items()}
    tensors |= {f"eval.{name}": tensor.contiguous() for name, tensor in outputs.items()}
    return tensors | {"eval.loss": loss.detach()}


def _named(prefix: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}{PREFIX}{name}": tensor.clone() for name, tensor in weights.items()}
