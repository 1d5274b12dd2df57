"""Reports from what is there: of a build under way, and of the records of its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deeploop.errors import BuildError
from deeploop.plan import Plan, Run
from deeploop.reporting import curves, harness_table, make, rule_table
from deeploop.reporting.alignment_table import measurement
from deeploop.reporting.artifacts import write_exhibit
from deeploop.reporting.data_identity import data_sets
from deeploop.reporting.drafts import EXHIBITS, PAPER_EXHIBITS
from deeploop.reporting.exhibits import Exhibit
from deeploop.reporting.health import Finding, examine
from deeploop.reporting.pages import RECORDS_PAGE, Page, Source, build, page_environment
from deeploop.reporting.records import (
    PEAK_FLOPS,
    RunRecord,
    compute_exhibit,
    environments,
    run_record,
    totals,
)
from deeploop.reporting.runs import PlacedRun
from deeploop.reporting.statement import statement
from deeploop.resolve import Resolver

Findings = dict[Run, Finding]


def build_records(resolver: Resolver, folder: Path) -> tuple[Path, list[str]]:
    """Write the page of the runs; return its path and what could not be read."""
    findings = {run: examine(resolver, run) for run in resolver.plan}
    problems = _problems(findings)
    return _write_records(resolver, findings, folder, problems), problems


def build_partial(resolver: Resolver, folder: Path) -> tuple[Path, list[str]]:
    """Write a whole report of what is there; return its page and what could not be read."""
    plan = resolver.plan
    findings = {run: examine(resolver, run) for run in plan}
    folder.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    with TemporaryDirectory() as work:
        sources = _sources(plan, findings, Path(work), faults)
        done = sum(finding.folder is not None for finding in findings.values())
        problems = [*_problems(findings), *faults]
        page = Page(
            title=_title(plan),
            suite=plan.suite,
            lead=f"A build under way: {done} of {len(findings)} runs have a result.",
            statement=statement(plan.suite),
            problems=tuple(problems),
        )
        build(sources, page, folder)
    _write_records(resolver, findings, folder, problems)
    return folder / "index.html", problems


def _problems(findings: Findings) -> list[str]:
    return [finding.problem for finding in findings.values() if finding.problem]


def _title(plan: Plan) -> str:
    reports = plan.of("report")
    return str(reports[0].spec["params"]["title"]) if reports else f"Suite {plan.suite}"


def _sources(plan: Plan, findings: Findings, work: Path, faults: list[str]) -> list[Source]:
    """Make every exhibit of the suite anew from the runs that are done."""
    found = [Source(rule_table.NAME, rule_table.build(work / rule_table.NAME))]
    for run in (run for name in EXHIBITS for run in plan.of(name)):
        runs = _placed(run, findings, faults)
        folder = _shown(run, runs, work / run.stage) if runs else findings[run].folder
        if folder is not None:
            found.append(Source(run.stage, folder))
    for report in plan.of("report"):
        runs = _placed(report, findings, faults)
        if any(run.done for run in runs):
            found.append(Source(curves.NAME, curves.build(runs, work / curves.NAME)))
    return found


def _shown(run: Run, runs: list[PlacedRun], folder: Path) -> Path | None:
    """Write an exhibit of what is done; None for one that has no published numbers to wait with."""
    if run.stage not in PAPER_EXHIBITS and not any(row.done for row in runs):
        return None
    folder.mkdir()
    write_exhibit(_exhibit(run.stage, runs, run.spec["params"], folder), folder)
    return folder


def _exhibit(name: str, runs: list[PlacedRun], params: Mapping[str, Any], folder: Path) -> Exhibit:
    if name == "table1":
        return make.losses(runs, params["published_backbone"], folder)
    if name == "table3":
        return make.votes(runs, folder, params.get("beside", ()))
    if name == "p_sweep":
        return make.p_sweep(runs, folder)
    if name == "sweeps":
        return make.sweeps(runs, params["groups"])
    if name == "alignment":
        return make.alignment(runs, folder)
    if name == "harness":
        return harness_table.exhibit(runs)
    return make.downstream(name, runs, params["published_backbone"], folder)


def _placed(table: Run, findings: Findings, faults: list[str]) -> list[PlacedRun]:
    """Return a table's runs, none for one that computes by itself.

    A run whose outputs cannot be read is named in `faults` and counts as pending.
    """
    folders = {run.id: findings[run].folder for run in table.inputs}
    placed = []
    for row in table.spec["params"].get("cells", ()):
        cell = {key: value for key, value in row.items() if key != "run"}
        run = PlacedRun(row["run"], cell, folders[row["run"]])
        if fault := _unreadable(run):
            run = PlacedRun(run.address, cell, None)
            if fault not in faults:
                faults.append(fault)
        placed.append(run)
    return placed


def _unreadable(run: PlacedRun) -> str:
    readers: dict[str, tuple[Callable[[], object], ...]] = {
        "train_lm": (run.training, run.history),
        "train_hrm": (run.seen, run.history),
        "train_arc_lm": (run.seen, run.history),
        "evaluate_lm": (run.evaluation,),
        "vote_arc": (run.vote,),
        "measure_alignment": (partial(measurement, run),),
        "hrm_harness_check": (partial(harness_table.harness_metrics, run),),
    }
    try:
        for read in readers[run.address.partition("/")[0]] if run.done else ():
            read()
    except BuildError as error:
        return f"{run.address}: {error}"
    return ""


def _write_records(
    resolver: Resolver, findings: Findings, folder: Path, problems: list[str]
) -> Path:
    records = [
        run_record(resolver.root, run, finding.folder, finding.problem)
        for run, finding in findings.items()
    ]
    plan = resolver.plan
    page = Page(
        title=_title(plan),
        suite=plan.suite,
        problems=tuple(problems),
        records=False,
    )
    done = [(run, found.folder) for run, found in findings.items() if found.folder]
    context = {
        "page": page,
        "facts": (),
        "records": records,
        "trainings": [record for record in records if _is_training(record)],
        "compute": compute_exhibit(records),
        "totals": totals(records),
        "environments": environments(records),
        "data_sets": data_sets(done),
        "peak": PEAK_FLOPS / 1e12,
        "curves": None,
        "records_page": RECORDS_PAGE,
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = page_environment(folder).get_template("runs.html.j2").render(context)
    path = folder / RECORDS_PAGE
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _is_training(record: RunRecord) -> bool:
    return record.run.stage.startswith("train_")
