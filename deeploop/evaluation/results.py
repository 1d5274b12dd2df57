"""What an evaluation leaves: `metrics.json` and `samples.parquet`, the same bytes each time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeploop.fileio import dump_json, write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

METRICS, SAMPLES = "metrics.json", "samples.parquet"


@dataclass(frozen=True)
class TaskResult:
    """One task at one shot count."""

    task: str
    shots: int
    summary: dict[str, Any]
    """`acc` (or the task's first metric), `stderr`, `n`, `ties`, `truncated`."""
    rows: list[dict[str, Any]]
    """A row a choice; the columns are those of `schema`."""

    @property
    def metric(self) -> str:
        """The metric that is reported."""
        return "acc" if "acc" in self.summary else str(self.summary["metric"])

    def save(self, folder: Path) -> None:
        """Keep the result for a resumed evaluation."""
        write_atomically(_path(folder, self.task, self.shots), json.dumps(vars(self)))


def saved(folder: Path, task: str, shots: int) -> TaskResult | None:
    """Return a result kept by an earlier attempt, or None."""
    try:
        text = _path(folder, task, shots).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return TaskResult(**json.loads(text))


def schema() -> pa.Schema:
    """Return the columns of `samples.parquet`."""
    import pyarrow as pa

    return pa.schema(
        [
            ("task", pa.string()),
            ("shots", pa.int64()),
            ("doc", pa.int64()),  # index in the evaluated split
            ("doc_hash", pa.string()),  # the harness's, of the document
            ("prompt_hash", pa.string()),  # the harness's, of the first choice's context
            ("choice", pa.int64()),
            ("loglikelihood", pa.float64()),
            ("greedy", pa.bool_()),  # every token of the choice is the most probable one
            ("gold", pa.int64()),
            ("correct", pa.bool_()),  # the document's answer; the same in all its rows
            ("response", pa.string()),  # of a generative task
        ]
    )


def write_results(
    folder: Path, results: Sequence[TaskResult], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Write both files and return what `metrics.json` holds.

    Args:
        folder: where they go.
        results: every task at every shot count.
        facts: what stands beside the numbers: source, versions, precision.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    results = sorted(results, key=lambda result: (result.shots, result.task))
    metrics: dict[str, Any] = {**facts, "shots": {}, "average": {}}
    for result in results:
        metrics["shots"].setdefault(str(result.shots), {})[result.task] = result.summary
    for shots, tasks in metrics["shots"].items():
        metrics["average"][shots] = average(tasks)
    rows = [row for result in results for row in result.rows]
    table = pa.Table.from_pylist(rows, schema()).replace_schema_metadata(None)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / SAMPLES, compression="zstd", store_schema=False)
    write_atomically(folder / METRICS, dump_json(metrics))
    return metrics


def average(tasks: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the unweighted mean of the tasks' accuracies; None unless each has one."""
    found = [summary.get("acc") for summary in tasks.values()]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None


def _path(folder: Path, task: str, shots: int) -> Path:
    return folder / f"{task}-{shots}.json"
