"""What is on record of each run: how it ended, how long it took, and where it comes from.

Read from the files beside the manifests, which no engine depends on: times are not the same twice,
so nothing here may enter an output of a stage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from deeploop.dvc import stage_name
from deeploop.fileio import dump_json, read_json
from deeploop.plan import Run
from deeploop.reporting.cells import Cell, Sample
from deeploop.reporting.entries import cell_entry
from deeploop.reporting.exhibits import Exhibit, Group, Row, Table
from deeploop.reporting.names import backbone_name
from deeploop.reporting.published import published

PEAK_FLOPS = 989.4e12
"""Dense bf16 peak of the paper's GPU, an H200, in FLOP/s (NVIDIA's data sheet)."""

_RATE = "_per_second"

_PROVENANCE: Mapping[str, Any] = {
    "attempts": 1,
    "code": "?",
    "finished": "?",
    "git_commit": "?",
    "git_dirty": False,
    "peak_memory_mb": None,
    "resumed": False,
    "seconds": None,
    "slurm_job": "",
}
"""What older or damaged records may lack."""

_ENTRY: Mapping[str, Any] = dict.fromkeys(("key", "store", "spec_sha256", "manifest_sha256"), "?")


@dataclass(frozen=True)
class RunRecord:
    """One run, as the page of the runs shows it."""

    run: Run
    state: str
    """`done`, `pending`, or what is wrong."""
    ended: str
    """Its outcome, where it is a training; `external` for a checkpoint from elsewhere."""
    provenance: Mapping[str, Any]
    """Who, when, where, how long; empty for a run without."""
    entry: Mapping[str, Any]
    """Key, digests, place in the store."""
    lineage: Mapping[str, Any]
    """Digests of what went in and what came out."""
    rates: Mapping[str, float]
    """What a second did, medians over the run's telemetry: `tokens`, `puzzles`, `flops`."""

    @property
    def hours(self) -> float | None:
        """Wall-clock of all attempts together."""
        seconds = self.provenance.get("seconds")
        return None if seconds is None else seconds / 3600

    @property
    def gpu_hours(self) -> float:
        """GPUs times wall-clock."""
        return float(self.provenance.get("gpu_hours", 0.0))

    @property
    def mfu(self) -> float | None:
        """Share of the GPUs' peak that the model's own arithmetic uses; None without GPUs."""
        gpus = self.run.resources.gpus
        flops = self.rates.get("flops")
        return flops / (gpus * PEAK_FLOPS) if gpus and flops else None

    @property
    def speed(self) -> str:
        """Tokens, puzzles or whatever else a second, in words."""
        found = (f"{value:,.0f} {name}/s" for name, value in self.rates.items() if name != "flops")
        return ", ".join(found)

    @property
    def targets(self) -> tuple[str, ...]:
        """The commands that rebuild the run, by either engine."""
        run = self.run
        return (
            f"snakemake -c all --config suite={run.suite} -- {run.manifest}",
            f"dvc repro {stage_name(run)}",
        )

    @property
    def spec_text(self) -> str:
        """The specification as it is hashed."""
        return dump_json(self.run.spec)


def run_record(root: Path, run: Run, folder: Path | None, problem: str) -> RunRecord:
    """Read what is on record of a run.

    Args:
        root: The project folder.
        run: The run.
        folder: Its outputs; None when they cannot be shown.
        problem: Why not; empty while the run is still to come.
    """
    at = root / run.folder
    done = folder is not None
    return RunRecord(
        run=run,
        state="done" if done else problem or "pending",
        ended=_ended(run, folder),
        provenance=_mapping(at / "provenance.json", _PROVENANCE) if done else {},
        entry=_mapping(at / "entry.json", _ENTRY) if done else {},
        lineage=_mapping(at / "lineage.json", {"outputs": {}}) if done else {},
        rates=_rates(at / "telemetry.jsonl"),
    )


def _mapping(path: Path, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return a record over its defaults; empty when it is missing or no record."""
    value = read_json(path)
    return {**(default or {}), **value} if isinstance(value, dict) and value else {}


def _ended(run: Run, folder: Path | None) -> str:
    if run.spec["params"].get("external"):
        return "external checkpoint"
    return str(_mapping(folder / "metrics.json").get("outcome", "")) if folder else ""


def _rates(path: Path, most: int = 200) -> dict[str, float]:
    """Return the median of each `*_per_second` over at most `most` lines, evenly taken."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    values: dict[str, list[float]] = {}
    for line in lines[:: max(1, len(lines) // most)]:
        try:
            found = json.loads(line)
        except ValueError:  # a line cut short by a kill
            continue
        for key, value in found.items() if isinstance(found, dict) else ():
            if key.endswith(_RATE) and isinstance(value, int | float):
                values.setdefault(key.removesuffix(_RATE), []).append(float(value))
    return {name: median(series) for name, series in values.items()}


def compute_exhibit(records: Sequence[RunRecord]) -> Exhibit | None:
    """Return appendix 11's table of these runs; None when no training is done."""
    trained = [r for r in records if r.run.stage == "train_lm" and r.hours is not None]
    trained = [record for record in trained if "table1" in record.run.draft.groups]
    if not trained:
        return None
    backbones = dict.fromkeys(record.run.draft.cell["backbone"] for record in trained)
    loops = sorted({record.run.draft.cell["loops"] for record in trained})
    paper = published().compute
    return Exhibit(
        name="compute",
        title="Cost of a cell of Table 1",
        source=paper.source,
        about="Wall-clock hours and GPU-hours of the runs of Table 1, mean over rules and seeds; "
        f"the published ones are of {paper.gpu}. All attempts of a run that was interrupted or "
        "failed count; one that was killed counts up to its last sign of life.",
        table=Table(
            corner="Hours",
            columns=tuple(f"R = {count}" for count in loops),
            groups=tuple(_cost_group(backbone, loops, trained) for backbone in backbones),
            detail_label="each run",
        ),
    )


def _cost_group(backbone: str, loops: Sequence[int], records: Sequence[RunRecord]) -> Group:
    paper = published().compute
    mine = [record for record in records if record.run.draft.cell["backbone"] == backbone]
    wall = {id(record): record.hours for record in mine}
    spent = {id(record): record.gpu_hours for record in mine}
    rows = []
    for label, hours, expected in (
        ("wall-clock", wall, paper.wall_clock_hours),
        ("GPU-hours", spent, paper.gpu_hours),
    ):
        cells = [
            _cost_cell(count, mine, hours, expected.get(backbone, {}).get(count)) for count in loops
        ]
        rows.append(Row(label=label, entries=tuple(cell_entry(cell, 3) for cell in cells)))
    return Group(label=backbone_name(backbone), rows=tuple(rows))


def _cost_cell(
    loops: int,
    records: Sequence[RunRecord],
    hours: Mapping[int, float | None],
    expected: float | None,
) -> Cell:
    samples = tuple(
        Sample(run=record.run.id, seed=number, value=hours[id(record)])
        for number, record in enumerate(records)
        if record.run.draft.cell["loops"] == loops
    )
    return Cell(where={"loops": loops}, samples=samples, published=expected)


@dataclass(frozen=True)
class Total:
    """What a stage's finished runs took together."""

    stage: str
    runs: int
    hours: float
    cpu_hours: float
    gpu_hours: float


def totals(records: Sequence[RunRecord]) -> tuple[Total, ...]:
    """Return a total for each stage that has finished runs, and one over all."""
    done = [record for record in records if record.provenance]
    stages = [*dict.fromkeys(record.run.stage for record in done), "all"]
    return tuple(
        _total(stage, [r for r in done if stage in (r.run.stage, "all")]) for stage in stages
    )


def _total(stage: str, records: Sequence[RunRecord]) -> Total:
    cpu = sum(float(record.provenance.get("cpu_seconds", 0.0)) for record in records)
    return Total(
        stage=stage,
        runs=len(records),
        hours=sum(record.hours or 0.0 for record in records),
        cpu_hours=cpu / 3600,
        gpu_hours=sum(record.gpu_hours for record in records),
    )


def environments(records: Sequence[RunRecord]) -> tuple[tuple[str, int], ...]:
    """Return each environment that runs were made in, and how many were."""
    counts: dict[str, int] = {}
    for record in records:
        found = record.provenance
        if found:
            libraries = ", ".join(f"{k} {v}" for k, v in found.get("libraries", {}).items())
            changed = " with changes" if found.get("git_dirty") else ""
            commit = f"commit {str(found.get('git_commit'))[:12]}{changed}"
            parts = (
                f"Python {found.get('python')}",
                libraries,
                commit,
                f"host {found.get('host')}",
            )
            text = "; ".join(filter(None, parts))
            counts[text] = counts.get(text, 0) + 1
    return tuple(counts.items())
