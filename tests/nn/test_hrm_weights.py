from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from deeploop.errors import UserError
from deeploop.nn.hrm import HRM, initialise
from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.hrm_weights import (
    differences,
    fill,
    inferred_config,
    load_model,
    read_checkpoint,
    save_model,
)

SIZES: dict[str, Any] = {
    "sequence_length": 9,
    "vocab_size": 12,
    "identifiers": 7,
    "puzzle_embedding_size": 24,
    "hidden_size": 16,
    "heads": 2,
    "h_layers": 2,
    "l_layers": 3,
    "precision": "fp32",
}


@pytest.fixture
def model() -> HRM:
    built = HRM(HRMConfig(**SIZES))
    initialise(built, 1)
    built.puzzle_emb.weights.normal_()
    return built


@pytest.mark.parametrize("prefix", ["_orig_mod.model.inner.", "model.inner.", ""])
def test_a_published_checkpoint_is_read_with_and_without_prefixes(
    model: HRM, prefix: str, tmp_path: Path
) -> None:
    path = tmp_path / "step_10"
    torch.save({f"{prefix}{name}": value for name, value in model.state_dict().items()}, path)
    weights = read_checkpoint(path)
    given = {"heads": 2, "sequence_length": 9, "precision": "fp32"}
    config = inferred_config(weights, given)
    assert config == model.config
    other = HRM(config)
    fill(other, weights, "it")
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in other.state_dict().items())


def test_learned_positions_are_recognised() -> None:
    model = HRM(HRMConfig(**(SIZES | {"positions": "learned", "puzzle_embedding_size": 0})))
    config = inferred_config(model.state_dict(), {"heads": 2, "sequence_length": 9})
    assert (config.positions, config.puzzle_embedding_size) == ("learned", 0)


class Malicious:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_with_code_is_refused_and_nothing_runs(model: HRM, tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    path = tmp_path / "checkpoint"
    torch.save({**model.state_dict(), "x": Malicious(trace)}, path)
    with pytest.raises(UserError, match="may hold code; nothing was executed"):
        read_checkpoint(path)
    bare = tmp_path / "bare.pkl"
    bare.write_bytes(pickle.dumps(Malicious(trace), protocol=2))
    with pytest.raises(UserError, match=str(bare)):
        read_checkpoint(bare)
    assert not trace.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 damaged", b"plain text"])
def test_a_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    for name in ("checkpoint", "weights.safetensors"):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UserError, match=name):
            read_checkpoint(path)


def test_a_truncated_checkpoint_is_refused(model: HRM, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    torch.save(model.state_dict(), path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(UserError, match="not a readable checkpoint"):
        read_checkpoint(path)


def test_what_is_no_state_dictionary_is_refused(tmp_path: Path) -> None:
    torch.save([torch.zeros(2)], tmp_path / "list")
    with pytest.raises(UserError, match="expected a state dictionary"):
        read_checkpoint(tmp_path / "list")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "other")
    with pytest.raises(UserError, match="not the weights of an HRM"):
        inferred_config(read_checkpoint(tmp_path / "other"), {})


def test_another_shape_is_named(model: HRM) -> None:
    narrow = HRM(HRMConfig(**(SIZES | {"l_layers": 2})))
    with pytest.raises(UserError, match=r"L_level.layers.2.*not a weight of this model \(and 3"):
        fill(narrow, model.state_dict(), "checkpoint")
    wider = HRM(HRMConfig(**(SIZES | {"vocab_size": 13})))
    assert differences(wider, model.state_dict())[0] == (
        "embed_tokens.embedding_weight is [12, 16], expected [13, 16]"
    )


def test_another_number_of_identifiers_is_explained(model: HRM) -> None:
    with pytest.raises(UserError, match=r"\[7, 24\], expected \[9, 24\].*order of reading"):
        fill(HRM(HRMConfig(**(SIZES | {"identifiers": 9}))), model.state_dict(), "checkpoint")


def test_a_model_folder_is_the_same_bytes_again_and_opens(model: HRM, tmp_path: Path) -> None:
    for name in ("first", "second"):
        save_model(tmp_path / name, model.config, model.state_dict())
    for file in ("model.json", "model.safetensors"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()
    opened = load_model(tmp_path / "first")
    assert not opened.training and opened.config == model.config
    assert torch.equal(opened.puzzle_emb.weights, model.puzzle_emb.weights)


def test_a_folder_that_is_no_hrm_is_refused(model: HRM, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model.json: not the configuration of an HRM"):
        load_model(tmp_path)
    save_model(tmp_path, model.config, model.state_dict())
    (tmp_path / "model.json").write_text('{"config": {}, "tokenizer": "bytes"}')
    with pytest.raises(UserError, match=r"not the configuration of an HRM"):
        load_model(tmp_path)
