"""lm-evaluation-harness's own task definitions, on our files.

A definition is the harness's YAML as installed: prompts, choices, few-shot rule and metrics are
its own. Only where the documents come from is replaced.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeploop.errors import UserError
from deeploop.evaluation.sources import digest, read_split, split_file

if TYPE_CHECKING:
    from deeploop.evaluation.stock_task import StockTask

DEFINITIONS = {
    "arc_challenge": "arc/arc_challenge.yaml",
    "arc_easy": "arc/arc_easy.yaml",
    "hellaswag": "hellaswag/hellaswag.yaml",
    "openbookqa": "openbookqa/openbookqa.yaml",
    "piqa": "piqa/piqa.yaml",
    "sciq": "sciq/sciq.yaml",
    "social_iqa": "siqa/siqa.yaml",
    "winogrande": "winogrande/default.yaml",
}
"""Where the harness keeps the eight; others are searched for. (Its own index of 14,000 files costs
18 CPU-seconds.)"""


@dataclass(frozen=True)
class LoadedTask:
    """A task, ready to be evaluated, and what it was made from."""

    name: str
    task: StockTask
    version: Any
    """The definition's own version, as the harness states it."""
    data: dict[str, str]
    """sha256 of the file of each split that is read."""


def load_tasks(folders: Mapping[str, Path]) -> list[LoadedTask]:
    """Return tasks with the documents of their folders, `<split>.parquet` or `.jsonl` in each.

    Raises:
        UserError: an unknown name, or a file that is missing or does not fit.
    """
    _quiet()
    configs = {name: definition(name) for name in folders}  # unknown names show first
    return [_load(name, config, folders[name]) for name, config in configs.items()]


def definition(name: str) -> dict[str, Any]:
    """Return the harness's configuration of one task, with its functions resolved.

    Raises:
        UserError: the harness has no such task, or what it has is a group or a Python class.
    """
    from lm_eval.tasks._yaml_loader import load_yaml

    config = load_yaml(_definition_file(name), resolve_func=True)
    for key, kind in (("group", "group of tasks"), ("class", "Python class")):
        if key in config:
            raise UserError(f"task {name}: is a {kind} in the harness, not a task defined by YAML")
    return {key: value for key, value in config.items() if key not in ("tag", "task_list")}


def splits(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the splits that a definition reads: the evaluated one, then the few-shot pool."""
    few_shot = (config.get("fewshot_config") or {}).get("split") or config.get("fewshot_split")
    order = ("test_split", "validation_split", "training_split")
    named = [config[key] for key in order if config.get(key)]
    pool = few_shot or config.get("training_split") or config.get("validation_split") or named[0]
    return tuple(dict.fromkeys((named[0], pool)))


@contextmanager
def tuned_harness() -> Iterator[functools._lru_cache_wrapper[Any]]:
    """Let the harness compile each Jinja template once, and draw no bars; yields the cache.

    It compiles the template again for every field of every document, which is three quarters of
    its CPU time.
    """
    from lm_eval.api import task as harness_task
    from lm_eval.utils import env

    cache = functools.lru_cache(maxsize=256)(env.from_string)
    bar = harness_task.tqdm
    env.from_string = cache
    harness_task.tqdm = lambda items, **_: items
    try:
        yield cache
    finally:
        harness_task.tqdm = bar
        del env.from_string  # back to the class's method


def _quiet() -> None:
    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # a warning for every task
    from datasets import disable_progress_bars

    disable_progress_bars()


def _definition_file(name: str) -> Path:
    import lm_eval.tasks

    folder = Path(lm_eval.tasks.__file__).parent
    if name in DEFINITIONS:
        return folder / DEFINITIONS[name]
    quoted = re.escape(name.encode())
    defines = re.compile(rb"^(task|group): *['\"]?" + quoted + rb"['\"]?\s*$", re.MULTILINE)
    for path in sorted(folder.rglob("*.yaml")):
        if defines.search(path.read_bytes()):
            return path
    raise UserError(f"task {name}: lm-evaluation-harness has no task of this name")


def _load(name: str, config: dict[str, Any], folder: Path) -> LoadedTask:
    from datasets import Dataset

    from deeploop.evaluation.stock_task import StockTask

    files = {split: split_file(name, folder, split) for split in splits(config)}
    documents = {split: Dataset(read_split(name, path)) for split, path in files.items()}
    try:
        with tuned_harness():
            task = StockTask(config, documents)
    except Exception as error:  # templates of other people fail in many ways
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UserError(f"task {name}: the documents in {folder} do not fit: {reason}") from error
    version = (config.get("metadata") or {}).get("version")
    return LoadedTask(name, task, version, {s: digest(path) for s, path in files.items()})
