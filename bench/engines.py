"""What the frame costs: no-op, dry run and `dvc status`, beside bare rules of the same shape.

    python -m bench.engines              # the paper suite, then growth from 100 to 1,000 runs
    python -m bench.engines --repeats 5

Every run's result is made up (one small file each), so that only deciding is measured. Ours and
the bare project, which has as many trivial rules with the same inputs, take turns; the numbers
are medians of CPU seconds of whole processes, their children included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import yaml

from deeploop.dvc import stage_name
from deeploop.frozen import freeze_code, freeze_plan, write_specs
from deeploop.plan import Plan, load_plan
from deeploop.project import load_registry, store_root
from deeploop.store import Entry, Outputs, finish, key_of, publish

ROOT = Path(__file__).parents[1]
TRACKED = ("Snakefile", "profiles", "workflow", "deeploop", "stages", "reports", ".dvcignore")

BARE_SNAKEFILE = """
import json

RUNS = json.load(open("runs.json"))


rule all:
    input: [path for runs in RUNS.values() for path in runs]


for stage, runs in RUNS.items():
    rule:
        name: stage
        input: lambda wildcards, stage=stage: RUNS[stage][f"out/{stage}/{wildcards.run}.json"]
        output: f"out/{stage}/{{run}}.json"
        shell: "touch {output}"
"""


def lay_ours(root: Path, params: dict[str, object] | None) -> Plan:
    """Copy the project, with other suites if given, and make up the result of every run."""
    for name in TRACKED:
        source = ROOT / name
        if source.is_symlink():
            (root / name).symlink_to(source.readlink())
        elif source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)
    text = yaml.safe_dump(params) if params else (ROOT / "params.yaml").read_text()
    (root / "params.yaml").write_text(text.replace("suite: demo", "suite: paper", 1))
    plan = load_plan(root)
    outputs: dict[str, Outputs] = {}
    for run in plan:
        upstream = [outputs[up.id] for up in run.inputs]
        entry = Entry(store_root(root), run.stage, key_of(run.spec, upstream))
        (entry.partial / "outputs").mkdir(parents=True)
        (entry.partial / "outputs" / "made-up.txt").write_text(entry.key)
        outputs[run.id] = finish(entry, run, run.spec_text, {})
        publish(root, run, entry, outputs[run.id], upstream)
    write_specs(root, plan)
    freeze_plan(root, plan, freeze_code(root, load_registry(root)))
    return plan


def lay_bare(root: Path, plan: Plan) -> None:
    """Write a Snakefile and a dvc.yaml with as many trivial rules, and their outputs."""
    runs: dict[str, dict[str, list[str]]] = {}
    stages = {}
    for number, run in enumerate(plan):
        path = f"out/{run.stage}/{run.name}.json"
        inputs = [f"out/{up.stage}/{up.name}.json" for up in run.inputs]
        runs.setdefault(run.stage, {})[path] = inputs
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("{}")
        os.utime(root / path, (1e9 + number, 1e9 + number))
        body = {"cmd": f"touch {path}", "outs": [{path: {"cache": False}}]}
        stages[stage_name(run)] = body | ({"deps": inputs} if inputs else {})
    (root / "runs.json").write_text(json.dumps(runs))
    (root / "Snakefile").write_text(BARE_SNAKEFILE)
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))


def cpu_seconds(root: Path, command: list[str]) -> float:
    """Run a command to its end and return its CPU seconds."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DEEPLOOP")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(label: str, ours: Callable[[], float], bare: Callable[[], float], repeats: int) -> None:
    """Measure both in turn and print medians and their ratio."""
    pairs = [(ours(), bare()) for _ in range(repeats)]
    a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratios = sorted(x / y for x, y in pairs)
    spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
    print(
        f"{label:<34} ours {a:6.2f} s   bare {b:6.2f} s   ratio {a / b:.2f} ({spread})", flush=True
    )


def bench_snakemake(label: str, ours: Path, bare: Path, repeats: int) -> None:
    """Compare a build that has nothing to do, and a dry run."""
    for name, command in (("no-op", ["-c1", "all"]), ("dry run", ["-n", "all"])):
        line = ["snakemake", *command]
        run = [partial(cpu_seconds, root, line) for root in (ours, bare)]
        compare(f"{label}: snakemake {name}", *run, repeats)


def bench_dvc(label: str, ours: Path, bare: Path, repeats: int) -> None:
    """Compare `dvc status` in projects whose results DVC has taken over."""
    cpu_seconds(ours, [sys.executable, "-m", "deeploop", "dvc"])
    for root in (ours, bare):
        cpu_seconds(root, ["dvc", "init", "--no-scm", "-q"])
        cpu_seconds(root, ["dvc", "commit", "-f", "-q"])
    run = [partial(cpu_seconds, root, ["dvc", "status"]) for root in (ours, bare)]
    compare(f"{label}: dvc status", *run, repeats)


def grown(runs: int) -> dict[str, object]:
    """Return a plan with about so many runs, of the shape of the paper's matrix."""
    document = yaml.safe_load((ROOT / "params.yaml").read_text())
    smoke = document["suites"]["smoke"]
    wanted = {name: smoke[name] for name in ("tokenize", "train_lm", "table1", "report")}
    group = {"backbone": "smoke", "scaling": ["base", "deeploop"], "loops": [1, 3]}
    group |= {"seeds": list(range(runs // 4))}
    wanted["train_lm"] = wanted["train_lm"] | {"recipe": "ddl", "groups": {"table1": group}}
    return document | {"suite": "paper", "suites": {"paper": wanted}}


def main() -> None:
    """Measure the paper suite with both engines, then growth with Snakemake."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="alternating measurements")
    repeats = parser.parse_args().repeats
    cases = [("paper", None), *((f"{runs} runs", grown(runs)) for runs in (100, 300, 1000))]
    for label, params in cases:
        with tempfile.TemporaryDirectory() as folder:
            ours, bare = Path(folder, "ours"), Path(folder, "bare")
            ours.mkdir()
            plan = lay_ours(ours, params)
            lay_bare(bare, plan)
            label = f"{label} ({len(plan)})"
            bench_snakemake(label, ours, bare, repeats)
            status = [sys.executable, "-m", "deeploop", "status"]
            print(f"{label}: deeploop status       {cpu_seconds(ours, status):6.2f} s", flush=True)
            if params is None:
                bench_dvc(label, ours, bare, repeats)


if __name__ == "__main__":
    main()
