from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from deeploop.arc.plan import PlanSettings, make_plan
from deeploop.arc.puzzles import Pair, Puzzle, PuzzleSet
from deeploop.arc.rows import ArcRows
from deeploop.errors import Interrupted, UserError
from deeploop.evaluation import hrm_prediction
from deeploop.evaluation.hrm_prediction import predict_arc
from deeploop.nn.hrm import HRM, initialise
from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.hrm_halting import think_fully
from deeploop.nn.hrm_weights import load_model, save_model
from deeploop.training.hrm_task import to_batch

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


class Place:
    def __init__(self, root: Path, model: Path, data: Path) -> None:
        self.model, self.data, self.root = model, data, root
        self.work, self.folder = root / "work", root / "out"
        for folder in (self.work, self.folder):
            folder.mkdir(parents=True)

    def predict(self, stop: Any = lambda: False, **execution: Any) -> bytes:
        telemetry = self.root / "telemetry.jsonl"
        predict_arc(self.model, self.data, self.folder, self.work, execution, telemetry, stop)
        return (self.folder / "predictions.parquet").read_bytes()


@pytest.fixture
def place(tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(hrm_prediction, "PART_ROWS", 8)
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
    answer = hrm_prediction.answer

    def counted(model: HRM, batch: Any) -> Any:
        answered.append(len(batch.puzzles))
        return answer(model, batch)

    monkeypatch.setattr(hrm_prediction, "answer", counted)
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
        "from deeploop.evaluation import hrm_prediction\n"
        "hrm_prediction.PART_ROWS = 8\n"
        "model, data, root = map(Path, sys.argv[1:])\n"
        "hrm_prediction.predict_arc(model, data, root / 'out', root / 'work', {'batch_rows': 30},\n"
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


def test_a_model_of_another_build_is_refused(place: Place) -> None:
    data = ArcRows(place.data, "test")
    save(place.model, data, identifiers=data.identifiers + 3)
    with pytest.raises(UserError, match=r"46 puzzle identifiers, the data set 43.*order"):
        place.predict()
    save(place.model, data, sequence_length=25)
    with pytest.raises(UserError, match="the model has 25 tokens a row, the data set 16"):
        place.predict()
