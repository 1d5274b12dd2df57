from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from deeploop.errors import BuildError, Interrupted, UserError
from deeploop.evaluation.config import PAPER_TASKS, Evaluation, EvaluationExecution
from deeploop.evaluation.evaluate import Conditions, Subject, evaluate
from deeploop.evaluation.sources import SAMPLES, task_folders
from tests.evaluation.models import make_model


def _conditions(
    tasks: tuple[str, ...] = ("piqa", "sciq"), limit: int = 6, **changes: Any
) -> Conditions:
    settings = Evaluation(tasks=tasks, source="samples", precision="fp32", limit=limit)
    execution = EvaluationExecution(device="cpu")
    return Conditions(settings, task_folders(SAMPLES, tasks), execution, **changes)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _finished(telemetry: Path) -> list[tuple[str, int]]:
    lines = map(json.loads, telemetry.read_text().splitlines())
    return [(line["task"], line["shots"]) for line in lines]


def test_all_tasks_and_shots_give_the_same_bytes_twice(byte_model: Path, tmp_path: Path) -> None:
    conditions = _conditions(PAPER_TASKS)
    for name in ("one", "two"):
        evaluate([Subject(byte_model, tmp_path / name, tmp_path / f"work {name}")], conditions)
    assert _files(tmp_path / "one") == _files(tmp_path / "two")
    metrics = json.loads((tmp_path / "one" / "metrics.json").read_text())
    samples = pl.read_parquet(tmp_path / "one" / "samples.parquet")
    for shots in ("0", "1"):
        accuracies = [metrics["shots"][shots][task]["acc"] for task in PAPER_TASKS]
        assert metrics["average"][shots] == pytest.approx(sum(accuracies) / 8)
    for (task, shots), rows in samples.group_by("task", "shots"):
        summary = metrics["shots"][str(shots)][task]
        documents = rows.unique("doc")
        assert summary["n"] == len(documents) == 6
        assert summary["acc"] == pytest.approx(documents["correct"].mean())
        best = rows.sort("loglikelihood", descending=True).unique("doc", keep="first")
        right = best.select("doc", right=pl.col("choice") == pl.col("gold")).sort("doc")["right"]
        assert right.equals(documents.sort("doc")["correct"].rename("right"))
    assert metrics["source"] == "samples"
    assert metrics["versions"]["tasks"]["piqa"] == 1.0
    assert set(metrics["data"]["piqa"]) == {"train", "validation"}


def test_an_interrupted_evaluation_goes_on_from_its_finished_tasks(
    byte_model: Path, tmp_path: Path
) -> None:
    telemetry = tmp_path / "telemetry.jsonl"
    asked = iter([False] * 7 + [True] * 100)  # somewhere in the second of four
    subject = Subject(byte_model, tmp_path / "results", tmp_path / "work")
    with pytest.raises(Interrupted):
        stopping = _conditions(telemetry=telemetry, stop=lambda: next(asked))
        evaluate([subject], stopping)
    before = _finished(telemetry)
    assert 0 < len(before) < 4
    assert not subject.folder.exists()
    evaluate([subject], _conditions(telemetry=telemetry))
    assert _finished(telemetry) == [("piqa", 0), ("piqa", 1), ("sciq", 0), ("sciq", 1)]
    whole = Subject(byte_model, tmp_path / "whole", tmp_path / "other work")
    evaluate([whole], _conditions())
    assert _files(subject.folder) == _files(whole.folder)


def test_finished_tasks_of_other_weights_or_settings_are_not_taken(tmp_path: Path) -> None:
    telemetry = tmp_path / "telemetry.jsonl"
    subject = Subject(tmp_path / "model", tmp_path / "results", tmp_path / "work")
    make_model(subject.model, seed=1)
    evaluate([subject], _conditions(("piqa",), telemetry=telemetry))
    make_model(subject.model, seed=2)
    evaluate([subject], _conditions(("piqa",), telemetry=telemetry))
    (last,) = evaluate([subject], _conditions(("piqa",), limit=5, telemetry=telemetry))
    assert len(_finished(telemetry)) == 6
    assert last["shots"]["0"]["piqa"]["n"] == 5
    evaluate([subject], _conditions(("piqa",), limit=5, telemetry=telemetry))
    assert len(_finished(telemetry)) == 6


def test_a_diverged_training_has_results_without_numbers(byte_model: Path, tmp_path: Path) -> None:
    subject = Subject(byte_model, tmp_path / "results", tmp_path / "work", outcome="diverged")
    (metrics,) = evaluate([subject], _conditions())
    assert metrics["training_outcome"] == "diverged"
    assert metrics["average"] == {"0": None, "1": None}
    assert metrics["shots"]["1"]["sciq"]["acc"] is None
    assert len(pl.read_parquet(subject.folder / "samples.parquet")) == 0


@pytest.mark.parametrize("value", [float("nan"), 0.0])
def test_a_model_that_ranks_nothing_is_an_error_and_not_25_percent(
    tmp_path: Path, value: float
) -> None:
    make_model(tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    weights["embedding"] = torch.full_like(weights["embedding"], value)
    save_file(weights, tmp_path / "model" / "model.safetensors")
    subject = Subject(tmp_path / "model", tmp_path / "results", tmp_path / "work")
    with pytest.raises(BuildError, match=r"^task piqa, 0-shot: .*cannot be ranked"):
        evaluate([subject], _conditions())


def test_folders_that_hold_no_model_are_named(tmp_path: Path) -> None:
    def said(folder: Path) -> str:
        with pytest.raises(UserError) as error:
            evaluate([Subject(folder, tmp_path / "results", tmp_path / "work")], _conditions())
        assert "\n" not in str(error.value)
        return str(error.value)

    assert said(tmp_path) == f"{tmp_path} is no model folder: no model.json"
    make_model(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    assert said(tmp_path / "model").endswith("is no model folder: no model.safetensors")
    make_model(tmp_path / "other", hidden_size=16)
    weights = (tmp_path / "other" / "model.safetensors").read_bytes()
    (tmp_path / "model" / "model.safetensors").write_bytes(weights)
    assert "does not fit model.json" in said(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(weights[:-100])
    assert "not a whole safetensors file" in said(tmp_path / "model")
    description = tmp_path / "other" / "model.json"
    description.write_text(description.read_text().replace('"bytes"', '"gpt2"'))
    assert "tokenizer gpt2 has 50257 ids, the model 256" in said(tmp_path / "other")


DOCUMENTS = {
    "lambada_openai": [
        {"text": f"She saw {word} and the {word}"} for word in ("sea", "hill", "ox")
    ],
    "triviaqa": [{"question": f"{n}?", "answer": {"value": "R", "aliases": ["R"]}} for n in "abc"],
    "wikitext": [{"page": f" = Rivers {n} = \n A river runs to the sea . \n" * 9} for n in "abc"],
}
"""Tasks of every kind of request: a last word, a generated answer, a perplexity."""


def test_other_tasks_report_their_own_metric(byte_model: Path, tmp_path: Path) -> None:
    for task, documents in DOCUMENTS.items():
        (tmp_path / task).mkdir()
        for split in ("train", "validation", "test"):
            lines = "".join(json.dumps(document) + "\n" for document in documents)
            (tmp_path / task / f"{split}.jsonl").write_text(lines)
    settings = Evaluation(
        tasks=tuple(DOCUMENTS), shots=(0,), source="mirror", mirror=str(tmp_path), precision="fp32"
    )
    subject = Subject(byte_model, tmp_path / "results", tmp_path / "work")
    folders = task_folders(tmp_path, settings.tasks)
    execution = EvaluationExecution(device="cpu")
    (metrics,) = evaluate([subject], Conditions(settings, folders, execution))
    found = metrics["shots"]["0"]
    assert found["wikitext"]["metric"] == "word_perplexity"
    assert found["wikitext"]["value"] > 1
    assert found["triviaqa"]["metric"] == "exact_match"
    assert found["lambada_openai"]["acc"] in (0, 1)
    assert metrics["average"]["0"] is None
    samples = pl.read_parquet(subject.folder / "samples.parquet")
    assert samples.filter(task="triviaqa")["response"].null_count() == 0
    assert samples.filter(task="wikitext")["loglikelihood"].max() < 0
