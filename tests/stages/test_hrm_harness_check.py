from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.puzzles import Pair, Puzzle, PuzzleSet
from deeploop.arc.rows import ArcRows
from deeploop.errors import UserError
from deeploop.evaluation import hrm_harness
from deeploop.nn.hrm import HRM, initialise
from deeploop.nn.hrm_config import HRMConfig
from deeploop.stage import Draft, Input, Job, Planned
from stages.hrm_harness_check import HarnessSection, expand, run

SETTINGS = {"heads": 2, "h_cycles": 1, "l_cycles": 2, "halt_max_steps": 2, "precision": "fp32"}


def identity_puzzle(number: int) -> Puzzle:
    """A puzzle whose output is one cell of colour 3: what the model below always answers."""
    answer = np.full((1, 1), 3, np.uint8)
    pair = Pair(np.full((2, 2), number, np.uint8), answer if number % 2 else answer + 1)
    return Puzzle(f"p{number}", (pair,), (pair,), file=f"p{number}.json")


@pytest.fixture
def data(tmp_path: Path) -> ArcRows:
    sets = [PuzzleSet("evaluation", tuple(identity_puzzle(number) for number in range(4)))]
    make_plan(sets, PlanSettings(augmentations=0, grid_size=3)).save(tmp_path)
    return ArcRows(tmp_path, "test")


@pytest.fixture
def checkpoint(data: ArcRows, tmp_path: Path) -> Path:
    """A checkpoint in the published format that answers every puzzle with one cell of 3.

    Each position's last state is pushed to a direction that depends on its place alone, by way
    of learned positions, and the head reads the token off it.
    """
    model = HRM(config_of(data.identifiers))
    initialise(model, 0)
    with torch.no_grad():
        for level in (model.H_level, model.L_level):
            for block in level.layers:
                block.self_attn.o_proj.weight.zero_()
                block.mlp.down_proj.weight.zero_()
        for table in (model.embed_tokens.embedding_weight, model.lm_head.weight, model.L_init):
            table.zero_()
        model.H_init.zero_()
        places = model.embed_pos.embedding_weight
        places.zero_()
        for position, token in enumerate([0, 5, *[1] * 8]):
            places[position, token] = 1.0
            model.lm_head.weight[token, token] = 1.0
    weights = {f"_orig_mod.model.inner.{name}": v for name, v in model.state_dict().items()}
    torch.save(weights, tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def config_of(identifiers: int) -> HRMConfig:
    sizes = {"sequence_length": 9, "vocab_size": 12, "identifiers": identifiers}
    shape = {"hidden_size": 16, "puzzle_embedding_size": 16, "h_layers": 1, "l_layers": 1}
    return HRMConfig(**sizes, **shape, **SETTINGS, positions="learned")


def draft(checkpoint: Path | None, expected: float) -> Draft:
    section = HarnessSection(
        dataset="reversed",
        checkpoint=str(checkpoint) if checkpoint else None,
        settings=SETTINGS,
        expected=expected,
    )
    return next(expand(section, cast(Planned, None)))


def result(planned: Draft, tmp_path: Path) -> dict[str, Any]:
    folder, work = tmp_path / "out", tmp_path / "work"
    for place in (folder, work):
        place.mkdir(exist_ok=True)
    job = Job(
        suite="extras",
        stage="hrm_harness_check",
        run=planned.name,
        params=planned.params,
        inputs=(Input("build_arc", "reversed", tmp_path),),
        files=tuple(Path(name) for name in planned.files),
        folder=folder,
        work=work,
        execution=planned.execution,
        telemetry=tmp_path / "telemetry.jsonl",
    )
    run(job)
    assert [path.name for path in folder.iterdir()] == ["metrics.json"]
    found: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return found


def test_a_checkpoint_in_the_published_format_is_scored(checkpoint: Path, tmp_path: Path) -> None:
    found = result(draft(checkpoint, expected=50.0), tmp_path)
    assert found["outcome"] == "passed" and found["found"] == 50.0
    assert result(draft(checkpoint, expected=5.0), tmp_path)["outcome"] == "failed"


def test_a_checkpoint_of_another_build_is_explained(checkpoint: Path, tmp_path: Path) -> None:
    weights = torch.load(checkpoint, weights_only=True)
    name = "_orig_mod.model.inner.puzzle_emb.weights"
    torch.save({**weights, name: torch.zeros(9, 16)}, checkpoint)
    with pytest.raises(UserError, match=r"\[9, 16\], expected \[5, 16\].*order of reading"):
        result(draft(checkpoint, expected=5.0), tmp_path)


def test_without_checkpoint_and_hub_it_is_skipped_with_the_reason(
    data: ArcRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def unreachable(params: Any, work: Path) -> Path:
        raise UserError(f"{params['hub']} cannot be downloaded (no route to host)")

    monkeypatch.setattr(hrm_harness, "published_checkpoint", unreachable)
    found = result(draft(None, expected=5.0), tmp_path)
    assert found == {
        "outcome": "skipped",
        "reason": "sapientinc/HRM-checkpoint-ARC-2 cannot be downloaded (no route to host)",
    }


def test_the_client_failing_in_any_way_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    def fails(*_: Any, **__: Any) -> str:
        raise OSError("offline\nand a long trace")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fails)
    params = {"hub": "someone/model", "hub_file": "checkpoint"}
    with pytest.raises(UserError, match=r"someone/model cannot be downloaded \(offline\)$"):
        hrm_harness.published_checkpoint(params, tmp_path)
