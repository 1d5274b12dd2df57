"""The official data of the eight tasks: pinned revisions on the Hugging Face hub, fetched once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deeploop.errors import BuildError, UserError
from deeploop.evaluation.sources import read_split

if TYPE_CHECKING:
    from datasets import DatasetDict

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HubData:
    """Where a task's documents are on the hub, and which state of them."""

    repository: str
    config: str | None
    revision: str
    """Commit; the harness itself takes whatever is newest."""
    evaluated: str
    """The split that is evaluated; few-shot examples come from `train`."""
    documents: int
    """How many the evaluated split has."""

    @property
    def splits(self) -> tuple[str, str]:
        """The splits that are fetched."""
        return self.evaluated, "train"


_ARC = ("allenai/ai2_arc", "210d026faf9955653af8916fad021475a3f00453")

HUB = {
    "arc_challenge": HubData(_ARC[0], "ARC-Challenge", _ARC[1], "test", 1172),
    "arc_easy": HubData(_ARC[0], "ARC-Easy", _ARC[1], "test", 2376),
    "hellaswag": HubData(
        "Rowan/hellaswag", None, "218ec52e09a7e7462a5400043bb9a69a41d06b76", "validation", 10042
    ),
    "openbookqa": HubData(
        "allenai/openbookqa", "main", "388097ea7776314e93a529163e0fea805b8a6454", "test", 500
    ),
    "piqa": HubData(
        "baber/piqa", None, "142f6d7367fd9877f0fb3b5734ea6a545f54cdd1", "validation", 1838
    ),
    "sciq": HubData("allenai/sciq", None, "2c94ad3e1aafab77146f384e23536f97a4849815", "test", 1000),
    "social_iqa": HubData(
        "lighteval/siqa", None, "54c6a1f8cb6daf4f5abf24a601852612fb35eb25", "validation", 1954
    ),
    "winogrande": HubData(
        "allenai/winogrande",
        "winogrande_xl",
        "01e74176c63542e6b0bcb004dcdea22d94fb67b5",
        "validation",
        1267,
    ),
}
"""The repositories that lm-evaluation-harness 0.4.13 names, at the commits others evaluate with."""


def pinned(task: str) -> HubData:
    """Return where a task's data is.

    Raises:
        UserError: no revision of it is pinned.
    """
    if task not in HUB:
        raise UserError(
            f"task {task}: no revision of its data is pinned (there is {', '.join(HUB)}): "
            "bring its files yourself, with source: mirror"
        )
    return HUB[task]


def fetch(task: str, data: HubData, folder: Path) -> None:
    """Download a task's splits into `<folder>/<split>.parquet`, and check them.

    Raises:
        BuildError: the hub cannot be reached.
        UserError: what it holds is not what was pinned.
    """
    import pyarrow.parquet as pq

    found = _load(task, data)
    _refuse_other_size(task, data, found)
    folder.mkdir(parents=True, exist_ok=True)
    for split in data.splits:
        path = folder / f"{split}.parquet"
        table = found[split].data.table.combine_chunks().replace_schema_metadata(None)
        pq.write_table(table, path, compression="zstd", store_schema=False)
        read_split(task, path)
        log.info("task %s: %s, %d documents", task, path, table.num_rows)


def _load(task: str, data: HubData) -> DatasetDict:
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    try:
        return load_dataset(data.repository, data.config, revision=data.revision)
    except Exception as error:  # a dozen kinds, of four libraries
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise BuildError(
            f"task {task}: {data.repository} cannot be fetched ({reason}): run "
            f"`deeploop fetch_tasks DIR --tasks {task}` where there is network, and name DIR as "
            "mirror here"
        ) from error


def _refuse_other_size(task: str, data: HubData, found: DatasetDict) -> None:
    for split in data.splits:
        if split not in found:
            raise UserError(f"task {task}: {data.repository} has no split '{split}'")
    count = len(found[data.evaluated])
    if count != data.documents:
        raise UserError(
            f"task {task}: {data.repository} has {count} documents in '{data.evaluated}', "
            f"not {data.documents}: these are not the official ones"
        )


def fetch_all(tasks: Sequence[str], mirror: Path) -> None:
    """Fetch tasks into a mirror, `<mirror>/<task>/<split>.parquet`.

    Raises:
        BuildError: the hub cannot be reached.
        UserError: a task has no pinned data, or the hub's is not the pinned.
    """
    wanted = {task: pinned(task) for task in tasks}  # a wrong name shows before the first download
    for task, data in wanted.items():
        fetch(task, data, mirror / task)
