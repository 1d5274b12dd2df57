from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.puzzles import Pair, Puzzle, PuzzleSet
from deeploop.arc.rows import ArcRows
from deeploop.errors import Interrupted, UserError
from deeploop.evaluation import arc_prediction
from deeploop.evaluation.arc_models import HRMModel, Kind, logit
from deeploop.evaluation.arc_prediction import predict_arc
from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.grid_gpt import GridGPT, build_grid_gpt, describe_grid_gpt
from deeploop.nn.hrm import HRM, initialise
from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.hrm_halting import think_fully
from deeploop.nn.hrm_weights import load_model, save_model
from deeploop.training.hrm_task import to_batch
from deeploop.training.puzzle_order import Rendered

GRID = 4


def puzzle(name: str, seed: int) -> Puzzle:
    draw = np.random.Generator(np.random.PCG64(seed))
    pairs = [
        Pair(*draw.integers(0, 10, (2, 2 + number % 2, 3), dtype=np.uint8)) for number in range(4)
    ]
    return Puzzle(name, tuple(pairs[:3]), tuple(pairs[3:]), file=f"{name}.json")


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    sets = [
        PuzzleSet("evaluation", tuple(puzzle(f"e{n}", n) for n in range(5))),
        PuzzleSet("training", tuple(puzzle(f"t{n}", 9 + n) for n in range(2))),
    ]
    make_plan(sets, PlanSettings(augmentations=5, grid_size=GRID)).save(folder)
    return folder


def save(folder: Path, data: ArcRows, **changes: Any) -> HRM:
    sizes: dict[str, Any] = {
        "sequence_length": data.tokens,
        "vocab_size": data.vocabulary,
        "identifiers": data.identifiers,
        "puzzle_embedding_size": 16,
        "hidden_size": 16,
        "heads": 2,
        "h_layers": 1,
        "l_layers": 1,
        "halt_max_steps": 3,
        "precision": "fp32",
    }
    model = HRM(HRMConfig(**(sizes | changes)))
    initialise(model, 0)
    with torch.no_grad():
        model.q_head.weight.normal_(generator=torch.Generator().manual_seed(1))
        model.puzzle_emb.weights.normal_(generator=torch.Generator().manual_seed(2))
    save_model(folder, model.config, model.state_dict())
    return load_model(folder)


def save_gpt(folder: Path, data: ArcRows, identifiers: int | None = None) -> GridGPT:
    sizes = {"context_length": 2 * data.tokens, "vocab_size": data.vocabulary}
    backbone = Backbone(hidden_size=16, layers=1, heads=2, embedding_std=1, **sizes)
    scaling = Scaling(alpha_exponent=0.5, beta_exponent=0.5)
    config = GPTConfig(backbone=backbone, loops=2, scaling=scaling)
    model = build_grid_gpt(config, identifiers or data.identifiers, seed=0)
    model.puzzles.normal_(generator=torch.Generator().manual_seed(2))
    folder.mkdir()
    save_file(model.state_dict(), folder / "model.safetensors")
    described = describe_grid_gpt(config, model.identifiers, "fp32")
    (folder / "model.json").write_text(json.dumps(described))
    return model


class Place:
    def __init__(self, root: Path, model: Path, data: Path, kind: Kind = "hrm") -> None:
        self.model, self.data, self.root, self.kind = model, data, root, kind
        self.work, self.folder = root / "work", root / "out"
        for folder in (self.work, self.folder):
            folder.mkdir(parents=True)

    def predict(self, stop: Any = lambda: False, **execution: Any) -> bytes:
        telemetry = self.root / "telemetry.jsonl"
        places = (self.model, self.data, self.folder, self.work)
        predict_arc(self.kind, *places, execution, telemetry, stop)
        return (self.folder / "predictions.parquet").read_bytes()


@pytest.fixture
def place(tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(arc_prediction, "PART_ROWS", 8)
    save(tmp_path / "model", ArcRows(data_folder, "test"))
    return Place(tmp_path / "run", tmp_path / "model", data_folder)


def test_every_row_is_answered_with_the_full_segments(place: Place) -> None:
    place.predict(batch_rows=5)
    data, model = ArcRows(place.data, "test"), load_model(place.model)
    frame = pl.read_parquet(place.folder / "predictions.parquet")
    assert len(frame) == data.count == 30
    batch = to_batch(data.render(np.arange(data.count)), torch.device("cpu"))
    thought = think_fully(model, batch)
    expected = thought.logits.argmax(-1).to(torch.uint8).numpy()
    assert [bytes(row) for row in expected] == frame["preds"].to_list()
    halting = frame["q_halt_logits"].to_numpy()
    np.testing.assert_allclose(halting, thought.q_halt.numpy(), rtol=1e-5)
    inputs, labels, identifiers = data.render(np.arange(data.count))
    assert frame["puzzle_identifiers"].to_list() == identifiers.tolist()
    assert frame["inputs"].to_list() == [bytes(row) for row in inputs]
    assert frame["labels"].to_list() == [bytes(row) for row in labels]
    assert set(frame.columns) == {
        "puzzle_identifiers", "inputs", "labels", "preds", "q_halt_logits",
    }  # fmt: skip


def test_an_interrupted_prediction_goes_on_where_it_stopped(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Place(tmp_path / "whole", place.model, place.data).predict(batch_rows=4)
    asked = iter(range(1, 100))
    with pytest.raises(Interrupted, match="finished parts are kept"):
        place.predict(lambda: next(asked) >= 5, batch_rows=4)
    assert not list(place.folder.iterdir())
    answered: list[int] = []
    answer = HRMModel.answer

    def counted(model: HRMModel, rows: Rendered) -> tuple[Tensor, Tensor]:
        answered.append(len(rows[0]))
        return answer(model, rows)

    monkeypatch.setattr(HRMModel, "answer", counted)
    assert place.predict(batch_rows=4) == whole
    assert sum(answered) == 16, "two finished parts of eight rows were kept"


def test_a_damaged_part_is_predicted_again(place: Place) -> None:
    whole = place.predict()
    part = place.work / "rows-000000008.safetensors"
    part.write_bytes(part.read_bytes()[:-5])
    assert place.predict() == whole


def test_batches_and_processes_do_not_bear_on_the_bytes(place: Place, tmp_path: Path) -> None:
    whole = place.predict(batch_rows=30)
    script = tmp_path / "predict.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\n"
        "from deeploop.evaluation import arc_prediction\n"
        "arc_prediction.PART_ROWS = 8\n"
        "model, data, root = map(Path, sys.argv[1:])\n"
        "arc_prediction.predict_arc('hrm', model, data, root / 'out', root / 'work', {'batch_rows': 30},\n"
        "    root / 'telemetry.jsonl', lambda: False)\n"
    )
    double = Place(tmp_path / "two", place.model, place.data)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(script), str(place.model), str(place.data), str(double.root)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}
    subprocess.run(command, check=True, env=environment, timeout=300)
    assert (double.folder / "predictions.parquet").read_bytes() == whole
    line = json.loads((double.root / "telemetry.jsonl").read_text().splitlines()[-1])
    assert line["rows"] == 16


def test_the_looped_gpt_answers_greedily_and_is_as_sure_as_its_answer_is_probable(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arc_prediction, "PART_ROWS", 8)
    data = ArcRows(data_folder, "test")
    model = save_gpt(tmp_path / "model", data)
    place = Place(tmp_path / "run", tmp_path / "model", data_folder, "gpt")
    with pytest.raises(Interrupted, match="finished parts are kept"):
        place.predict((place.work / "rows-000000008.safetensors").exists, batch_rows=4)
    stored = place.predict(batch_rows=4)
    whole = Place(tmp_path / "whole", place.model, data_folder, "gpt")
    assert whole.predict(batch_rows=4) == stored
    frame = pl.read_parquet(place.folder / "predictions.parquet")
    inputs, _, identifiers = (torch.from_numpy(p).long() for p in data.render(np.arange(30)))
    tokens, log_probability = model.solve(inputs, identifiers)
    assert frame["preds"].to_list() == [bytes(row) for row in tokens.to(torch.uint8).numpy()]
    sure = torch.from_numpy(frame["q_halt_logits"].to_numpy().copy()).sigmoid()
    torch.testing.assert_close(sure, log_probability.exp().float(), rtol=1e-3, atol=0)


def test_the_logit_of_an_answer_is_finite() -> None:
    found = logit(torch.tensor([0.0, -1e-15, math.log(0.5), -200.0, -1e30]))
    assert found.isfinite().all()
    assert found[2].abs() < 1e-6 and found[3].item() == pytest.approx(-200)


def test_a_gpt_of_another_build_is_refused(tmp_path: Path, data_folder: Path) -> None:
    save_gpt(tmp_path / "model", ArcRows(data_folder, "test"), identifiers=50)
    place = Place(tmp_path / "run", tmp_path / "model", data_folder, "gpt")
    with pytest.raises(UserError, match=r"50 puzzle identifiers, the data set 43.*order"):
        place.predict()


def test_a_model_of_another_build_is_refused(place: Place) -> None:
    data = ArcRows(place.data, "test")
    save(place.model, data, identifiers=data.identifiers + 3)
    with pytest.raises(UserError, match=r"46 puzzle identifiers, the data set 43.*order"):
        place.predict()
    save(place.model, data, sequence_length=25)
    with pytest.raises(UserError, match="the model has 25 tokens a row, the data set 16"):
        place.predict()
