"""Stage `fetch_text`: files of a data set on the Hugging Face hub, fetched where there is network.

params.yaml declares a rule and no file names:

    fetch_text:
      fineweb_edu_50bt:
        repo: HuggingFaceFW/fineweb-edu
        revision: 87f09149ef4734204d70ed1d046ddc9ca3f2b8f9
        files: ["sample/100BT/*.parquet"]
        max_tokens: 50e9

In the place of `files`, `configuration: sample-100BT` takes what the data set's card names so. A
run's outputs are the files, under their paths in the data set, and `files.json`: their list with
sizes and sha256, in the order in which they are read. `tokenize` reads them as
`source: {kind: fetched, run: fineweb_edu_50bt}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import time

from pydantic import ConfigDict

from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage
from deeploop.text.config import Hub


class Fetches(Section):
    """Rules by name; the name is the run's."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Hub]


def expand(section: Fetches, plan: Planned) -> Iterator[Draft]:
    """Plan one run a rule."""
    for name, hub in section.__pydantic_extra__.items():
        yield Draft(
            name=name,
            params=hub.model_dump(mode="json"),
            resources=Resources(network=True, minutes=24 * 60),
        )


def run(job: Job) -> None:
    """Fetch the files of one rule."""
    from deeploop.text.fetch import fetch_text

    with job.telemetry.open("a") as log:
        fetch_text(
            job.params,
            job.folder,
            job.work,
            job.stop,
            report=lambda file: print(json.dumps({"time": time(), **file}), file=log, flush=True),
        )


STAGE = Stage(
    name="fetch_text",
    about="text from the Hugging Face hub",
    section=Fetches,
    expand=expand,
    pinned=True,
    local=True,
)
