"""Our prompts against those the harness makes when it loads the same files in its own way."""

from __future__ import annotations

from pathlib import Path

import lm_eval.tasks
import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.evaluator import simple_evaluate

from deeploop.evaluation.config import PAPER_TASKS
from deeploop.evaluation.harness import load_tasks, tuned_harness
from deeploop.evaluation.sources import SAMPLES, task_folders
from tests.evaluation.own_way import write_definitions

Prompts = dict[str, list[tuple[str, str]]]
"""Task -> (context, continuation) of each request."""


class RecordingLM(LM):
    """Answers anything, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Prompts = {}

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        for request in requests:
            self.seen.setdefault(request.task_name, []).append(request.args)
        return [(0.0, False)] * len(requests)

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: list[Instance]) -> list[str]:
        raise NotImplementedError


def _own_way(folder: Path, shots: int) -> Prompts:
    """Load by files that include the stock definitions and name other data, and evaluate."""
    write_definitions(folder, PAPER_TASKS)
    manager = lm_eval.tasks.TaskManager(include_path=str(folder), include_defaults=False)
    model = RecordingLM()
    simple_evaluate(model, tasks=list(PAPER_TASKS), num_fewshot=shots, task_manager=manager)
    return model.seen


@pytest.mark.parametrize("shots", [0, 1])
def test_prompts_equal_the_harness_own(tmp_path: Path, shots: int) -> None:
    wanted = _own_way(tmp_path, shots)
    for loaded in load_tasks(task_folders(SAMPLES, PAPER_TASKS)):
        loaded.task.set_shots(shots)
        with tuned_harness():
            loaded.task.build_all_requests()
        ours = [instance.args for instance in loaded.task.instances]
        assert ours == wanted[loaded.name], loaded.name
        assert all(len(context.split("\n\n")) == shots + 1 for context, _ in ours)


def test_templates_are_compiled_once_and_render_the_same() -> None:
    from lm_eval.utils import apply_template, env

    documents = [{"goal": "To {{x}} boil", "n": i} for i in range(3)]
    template = "Question: {{goal}} {{n + 1}}\nAnswer:\n"
    plain = [apply_template(template, document) for document in documents]
    with tuned_harness() as cache:
        tuned = [apply_template(template, document) for document in documents]
    assert tuned == plain
    assert cache.cache_info().misses == 1
    assert cache.cache_info().hits == len(documents) - 1
    assert "from_string" not in vars(env), "the harness is left as it was"


def test_requests_are_built_once_and_lose_their_answers() -> None:
    (loaded,) = load_tasks(task_folders(SAMPLES, ["piqa"]))
    loaded.task.set_shots(1)
    loaded.task.build_all_requests()
    first = list(loaded.task.instances)
    first[0].resps.append("old")
    loaded.task.set_shots(0)
    loaded.task.build_all_requests()
    zero_shot = loaded.task.instances[0].args
    loaded.task.set_shots(1)
    loaded.task.build_all_requests()
    assert all(a is b for a, b in zip(loaded.task.instances, first, strict=True))
    assert loaded.task.instances[0].resps == []
    assert zero_shot != first[0].args
