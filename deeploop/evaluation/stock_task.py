"""A harness task whose documents are handed in and whose requests are kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from datasets import Dataset
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

FEWSHOT_SEED = 1234
"""The harness's default; it decides which examples a few-shot prompt shows."""


class StockTask(ConfigurableTask):
    """The harness's task of a configuration, on given documents.

    Requests are built once a shot count and serve every model; documents are processed once.
    """

    def __init__(self, config: Mapping[str, Any], documents: Mapping[str, Dataset]) -> None:
        self._documents = documents
        self._kept: dict[tuple[int, int | None], list[Instance]] = {}
        super().__init__(config=dict(config))

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Take the documents that were handed in instead of asking the hub."""
        self.dataset = self._documents

    @cached_property
    def eval_docs(self) -> Dataset:
        """The evaluated documents; the harness would process them anew on every access."""
        return super().eval_docs

    def set_shots(self, shots: int) -> None:
        """Make the next requests `shots`-shot, from a fresh few-shot generator."""
        self.set_config("num_fewshot", shots)
        self.set_fewshot_seed(FEWSHOT_SEED)

    def build_all_requests(self, *, limit: int | None = None, **kwargs: Any) -> None:
        """Build the requests of the present shot count, or take the kept ones without answers."""
        key = (self.config.num_fewshot, limit)
        if key not in self._kept:
            super().build_all_requests(limit=limit, **kwargs)
            self._kept[key] = list(self.instances)
        kept = self._kept[key]
        for instance in kept:
            instance.resps, instance.filtered_resps = [], {}
        self._instances = kept
