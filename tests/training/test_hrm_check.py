from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from deeploop.errors import UserError
from deeploop.training.hrm_check import Deviation, check
from deeploop.training.hrm_reference import read_reference
from tests.training.plain_reference import SETTINGS, SMALL, record, write_reference

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
PUBLISHED = Path(__file__).parent / "data" / "hrm_published_fp32.safetensors"
"""Outputs of the published code (PyTorch 2.13 on a CPU): its start weights and three steps.

Gradients and updated weights are left out for size; steps 1 and 2 hold only if both were right.
"""

VARIANTS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "bf16": {"forward_dtype": "bfloat16"},
    "fp64": {"forward_dtype": "float64"},
    "learned positions, padded puzzle embedding": {
        "pos_encodings": "learned",
        "puzzle_emb_ndim": 20,
    },
    "puzzle embedding over two positions, bf16": {
        "puzzle_emb_ndim": 40,
        "forward_dtype": "bfloat16",
    },
    "three H cycles, no puzzle embedding": {"H_cycles": 3, "puzzle_emb_ndim": 0},
    "one L cycle, four segments": {"L_cycles": 1, "halt_max_steps": 4},
    "a single segment": {"halt_max_steps": 1},
    "softmax loss": {"loss_type": "softmax_cross_entropy"},
    "other norm and rotary constants": {"rms_norm_eps": 1e-3, "rope_theta": 100.0},
}


def failing(deviations: list[Deviation]) -> list[Deviation]:
    return [deviation for deviation in deviations if not deviation.holds]


@pytest.mark.parametrize("variant", VARIANTS)
def test_agrees_with_the_plain_implementation(variant: str, tmp_path: Path) -> None:
    published = SMALL | VARIANTS[variant]
    path = write_reference(tmp_path / "reference.safetensors", record(published), published)
    deviations = check(read_reference(path))
    assert not failing(deviations)
    compared = {deviation.quantity for deviation in deviations}
    assert {"loss", "logits", "carry.z_H", "carry.halted", "grad", "after"} <= compared


def test_agrees_with_the_published_code() -> None:
    deviations = check(read_reference(PUBLISHED))
    assert not failing(deviations)
    assert {"step2.loss", "step2.carry.z_L", "eval.logits"} <= {d.where for d in deviations}


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the large reference files are not here")
@pytest.mark.parametrize("name", ["hrm_fp32_rope", "hrm_fp32_no_puzzle_embedding"])
def test_agrees_with_the_published_code_gradients_included(name: str) -> None:
    assert not failing(check(read_reference(GOLDEN / f"{name}.safetensors")))


@pytest.mark.parametrize(
    ("tensor", "factor"),
    [
        ("step1.logits", 1.001),
        ("step2.carry.z_L", 0.999),
        ("step0.grad.model.inner.q_head.weight", 1.001),
        ("step1.after.model.inner.puzzle_emb.weights", 1.01),
        ("step2.metric.accuracy", 1.01),
        ("eval.loss", 1.001),
    ],
)
def test_a_deviation_is_found_where_it_is(tensor: str, factor: float, tmp_path: Path) -> None:
    tensors = record(SMALL)
    tensors[tensor] = tensors[tensor] * factor
    path = write_reference(tmp_path / "reference.safetensors", tensors, SMALL)
    wrong = failing(check(read_reference(path)))
    assert tensor in {deviation.where for deviation in wrong}


def test_halting_that_differs_is_found(tmp_path: Path) -> None:
    tensors = record(SMALL)
    tensors["step1.carry.halted"] = 1 - tensors["step1.carry.halted"]
    path = write_reference(tmp_path / "reference.safetensors", tensors, SMALL)
    wrong = {deviation.where for deviation in failing(check(read_reference(path)))}
    assert "step1.carry.halted" in wrong


def test_updates_with_undecided_sign_are_excused_but_not_many(tmp_path: Path) -> None:
    tensors = record(SMALL)
    name = "model.inner.H_level.layers.0.mlp.down_proj.weight"
    gradient = tensors[f"step0.grad.{name}"]
    weakest = int(gradient.abs().argmin())
    gradient.view(-1)[weakest] = 0
    tensors[f"step0.after.{name}"].view(-1)[weakest] += 1.9e-3
    path = write_reference(tmp_path / "one.safetensors", tensors, SMALL)
    assert all(d.holds for d in check(read_reference(path)) if "step0" in d.where)
    tensors[f"step0.after.{name}"].view(-1)[:] += 1.9e-3
    path = write_reference(tmp_path / "all.safetensors", tensors, SMALL)
    assert any(d.where == f"step0.after.{name}" for d in failing(check(read_reference(path))))


def test_files_that_are_no_reference_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "reference.safetensors"
    path.write_bytes(b"not a tensor file")
    with pytest.raises(UserError, match="not a readable safetensors file"):
        read_reference(path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(UserError, match="no `cfg`"):
        read_reference(path)
    write_reference(path, {"x": torch.zeros(1)}, SMALL | {"H_cycels": 2})
    with pytest.raises(UserError, match="unknown key H_cycels"):
        read_reference(path)
    write_reference(path, {"x": torch.zeros(1)}, SMALL | {"num_heads": 5})
    with pytest.raises(UserError, match="heads must divide"):
        read_reference(path)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    tensors = record(SMALL, steps=1)
    del tensors["param.model.inner.lm_head.weight"]
    path = write_reference(tmp_path / "reference.safetensors", tensors, SMALL)
    with pytest.raises(UserError, match=r"lm_head.weight is missing"):
        check(read_reference(path))


def test_the_settings_of_the_file_are_used(tmp_path: Path) -> None:
    tensors = record(SMALL, steps=1)
    path = tmp_path / "reference.safetensors"
    write_reference(path, tensors, SMALL)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    assert metadata["lr"] == SETTINGS["lr"]
    save_file(load_file(path), path, metadata | {"lr": "0.01"})
    wrong = failing(check(read_reference(path)))
    assert wrong and {deviation.quantity for deviation in wrong} <= {"after", "after.beyond_limit"}
