from __future__ import annotations

from pathlib import Path

import pytest

from deeploop.commands.plan import as_text
from deeploop.plan import load_plan
from deeploop.text.budget import BYTES_PER_CORE_SECOND, corpus_budget, text_budget

PAPER = 100_000 * 480 * 1024


def test_the_papers_budget_follows_from_the_measured_rate() -> None:
    budget = text_budget(PAPER, workers=16)
    assert budget.tokens == 49_152_000_000
    seconds = PAPER * 4.8 / BYTES_PER_CORE_SECOND["tiktoken"]
    assert budget.core_hours == pytest.approx(seconds / 3600)
    assert budget.hours == pytest.approx(budget.core_hours / 16)
    assert budget.shards_gb == pytest.approx(98.304)
    assert 98.304 < budget.peak_gb < 100
    assert text_budget(PAPER, "fast").core_hours < budget.core_hours / 3
    assert str(budget).startswith("49.152B tokens: ")
    assert "on 16 cores; disk: 143 GB of text, 98.3 GB of shards, 99.8 GB while" in str(budget)


def test_only_a_planned_corpus_of_declared_size_has_one() -> None:
    execution = {"backend": "fast", "workers": 8}
    params = {"source": {"kind": "fetched"}, "tokenizer": "gpt2", "max_tokens": 10**9}
    budget = corpus_budget(params, execution)
    assert budget == text_budget(10**9, "fast", 8)
    assert corpus_budget(params | {"max_tokens": None}, execution) is None
    assert corpus_budget(params | {"tokenizer": "bytes"}, execution) is None
    assert corpus_budget(params | {"source": {"kind": "shards"}}, execution) is None


def test_the_plan_prints_it_for_the_paper() -> None:
    lines = as_text(load_plan(Path(__file__).parents[2], "paper")).splitlines()
    [whole, trained] = [line for line in lines if "core-hours" in line]
    assert "tokenize/fineweb-edu-50bt: 50.000B tokens: " in whole
    assert trained.strip() == f"of which are trained on: {text_budget(PAPER, workers=16)}"
