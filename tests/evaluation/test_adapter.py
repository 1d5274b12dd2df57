from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from lm_eval.api.instance import Instance

from bench.hflm import hflm
from deeploop.evaluation.adapter import DegenerateScores, LoopedLM
from deeploop.evaluation.config import PAPER_TASKS, EvaluationExecution, Precision
from deeploop.evaluation.harness import load_tasks
from deeploop.evaluation.run_task import run_task
from deeploop.evaluation.scorers import LocalScorer, open_scorer
from deeploop.evaluation.sources import SAMPLES, task_folders
from deeploop.nn.folder import describe, open_model
from deeploop.text.tokenizers import load_tokenizer

LONG = "The river ran past the mill and over the stones. " * 30
EDGE_CASES = {
    "over-long context": (LONG, " and on"),
    "over-long together": (LONG[:1100], " then the rain came" * 5),
    "empty context": ("", "a first word"),
    "one-token choices": ("The answer is", " A"),
    "trailing spaces": ("Question: why?\nAnswer:  ", "because"),
    "no space between": ("Answer:", "yes"),
    "a merge across the boundary": ("un", "believable"),
    "beyond ASCII": ("naïve café", " 北京 👩‍👩‍👧"),
    "a newline first": ("one", "\n\ntwo"),
}


def _adapter(folder: Path, batch_tokens: int = 2048, precision: Precision = "fp32") -> LoopedLM:
    description = describe(folder)
    scorer = LocalScorer(open_model(folder, "cpu"), precision)
    tokenizer = load_tokenizer(description.tokenizer)
    return LoopedLM(scorer, tokenizer, description.window, batch_tokens)


def _instances(pairs: list[tuple[str, ...]], kind: str = "loglikelihood") -> list[Instance]:
    return [Instance(kind, {}, pair, 0, ("t", number, 1)) for number, pair in enumerate(pairs)]


@pytest.fixture(params=["bytes", "gpt2"])
def folder(request: pytest.FixtureRequest, byte_model: Path, gpt2_model: Path) -> Path:
    return byte_model if request.param == "bytes" else gpt2_model


def test_edge_cases_score_as_in_the_harness_own_adapter(folder: Path) -> None:
    adapter, theirs = _adapter(folder), hflm(folder)
    wanted = theirs.loglikelihood(_instances(list(EDGE_CASES.values())), disable_tqdm=True)
    found = adapter.loglikelihood(_instances(list(EDGE_CASES.values())))
    for name, ours, reference in zip(EDGE_CASES, found, wanted, strict=True):
        assert ours[0] == pytest.approx(reference[0], abs=1e-4), name
        assert ours[1] == reference[1], name


def test_rolling_scores_as_in_the_harness_own_adapter(folder: Path) -> None:
    texts = _instances([(LONG,), ("short",), (LONG[:257],)], "loglikelihood_rolling")
    wanted = hflm(folder).loglikelihood_rolling(texts, disable_tqdm=True)
    assert _adapter(folder).loglikelihood_rolling(texts) == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("shots", [0, 1])
def test_all_tasks_score_as_in_the_harness_own_adapter(gpt2_model: Path, shots: int) -> None:
    adapter = _adapter(gpt2_model)
    theirs = hflm(gpt2_model)
    for loaded in load_tasks(task_folders(SAMPLES, PAPER_TASKS)):
        ours = run_task(adapter, loaded.task, loaded.name, shots)
        reference = run_task(theirs, loaded.task, loaded.name, shots)
        for mine, other in zip(ours.rows, reference.rows, strict=True):
            assert mine["loglikelihood"] == pytest.approx(other["loglikelihood"], abs=1e-4)
            assert mine["prompt_hash"] == other["prompt_hash"]
        assert ours.summary["acc"] == reference.summary["acc"]
        assert ours.summary["stderr"] == reference.summary["stderr"]


def test_scores_equal_a_plain_reference(byte_model: Path) -> None:
    adapter = _adapter(byte_model, batch_tokens=300)
    pairs = [("The cup is", f" {end}") for end in ("full", "fuller", "empty", "e", "full")]
    pairs += [("The lid is", " full"), ("x", "yz")]
    for (context, continuation), (value, greedy) in zip(
        pairs, adapter.loglikelihood(_instances(pairs)), strict=True
    ):
        ids = torch.tensor(list((context + continuation).encode()))
        logits = adapter.scorer.model.logits(ids[None, :-1])[0].double()
        rows = logits.log_softmax(-1)[-len(continuation) :]
        targets = ids[-len(continuation) :]
        assert value == pytest.approx(rows.gather(1, targets[:, None]).sum().item(), abs=1e-5)
        assert greedy == bool((rows.argmax(1) == targets).all())


def test_bf16_moves_scores_a_little_and_only_in_the_blocks(byte_model: Path) -> None:
    pairs = [("The cup is", f" {end}") for end in ("full", "fuller", "empty")]
    exact = [value for value, _ in _adapter(byte_model).loglikelihood(_instances(pairs))]
    rough = _adapter(byte_model, precision="bf16").loglikelihood(_instances(pairs))
    for (value, _), wanted in zip(rough, exact, strict=True):
        assert value == pytest.approx(wanted, rel=0.02)
        assert value != wanted


def test_a_continuation_longer_than_the_window_is_scored_whole(byte_model: Path) -> None:
    adapter = _adapter(byte_model)  # 256 tokens; the harness's own adapter refuses this
    ((value, _),) = adapter.loglikelihood(_instances([("It said:", LONG[:600])]))
    assert np.isfinite(value)
    assert value < adapter.loglikelihood(_instances([("It said:", LONG[:500])]))[0][0]
    assert adapter.truncated == 2


def test_greedy_generation_stops_where_it_should(byte_model: Path) -> None:
    adapter = _adapter(byte_model)
    settings = {"until": [], "max_gen_toks": 12}
    prompts = _instances([("The river", settings), ("A", settings)], "generate_until")
    free = adapter.generate_until(prompts)
    for prompt, text in zip(("The river", "A"), free, strict=True):
        ids = list(prompt.encode())
        for _ in range(12):
            ids.append(int(adapter.scorer.model.logits(torch.tensor([ids]))[0, -1].argmax()))
        new = bytes(ids[len(prompt) :]).split(b"\0")[0]
        assert text == new.decode(errors="replace")
    stop = free[0][3]
    stopped = _instances([("The river", {"until": [stop], "max_gen_toks": 12})], "generate_until")
    assert adapter.generate_until(stopped) == [free[0].split(stop)[0]]


@pytest.mark.parametrize(
    ("value", "said"), [(float("nan"), "not finite"), (0.0, "all 3 log-likelihoods a token are")]
)
def test_scores_that_rank_nothing_are_refused(byte_model: Path, value: float, said: str) -> None:
    adapter = _adapter(byte_model)
    adapter.scorer.model.embedding.data.fill_(value)  # NaN, or every token equally probable
    with pytest.raises(DegenerateScores, match=said):
        adapter.loglikelihood(_instances([("a", " b"), ("a", " cd"), ("e", "f")]))


def test_an_empty_continuation_is_named(gpt2_model: Path) -> None:
    with pytest.raises(ValueError, match="no token of its own: \\('Ans', 'wer'\\)"):
        _adapter(gpt2_model).loglikelihood(_instances([("Ans", "wer")]))


def test_one_two_and_three_processes_score_the_same_bits(byte_model: Path) -> None:
    (loaded,) = load_tasks(task_folders(SAMPLES, ["social_iqa"]))
    tokenizer, window = load_tokenizer("bytes"), describe(byte_model).window
    found = []
    for processes in (1, 2, 3):
        execution = EvaluationExecution(processes=processes, device="cpu")
        with open_scorer(byte_model, execution, "fp32") as scorer:
            adapter = LoopedLM(scorer, tokenizer, window, batch_tokens=1024)
            found.append(run_task(adapter, loaded.task, "social_iqa", 1))
    assert found[0] == found[1] == found[2]
