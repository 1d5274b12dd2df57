"""The project's own plan, and the mistakes that people make in it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from deeploop.commands.plan import totals
from deeploop.dvc import dvc_yaml
from deeploop.errors import UserError
from deeploop.fileio import sha256_text
from deeploop.plan import Plan, load_plan, public_version

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden_keys.json"


@pytest.fixture(scope="module")
def paper() -> Plan:
    return load_plan(ROOT, "paper")


def identities(plan: Plan) -> dict[str, str]:
    """What is in a specification but for code, which unpinned stages follow."""
    volatile = ("code", "data", "libraries")
    return {
        run.id: sha256_text(json.dumps({k: v for k, v in run.spec.items() if k not in volatile}))
        for run in plan
    }


def test_the_paper_suite_is_the_paper(paper: Plan) -> None:
    runs = paper.of("train_lm")
    matrix = {run.name for run in runs if "table1" in run.draft.groups}
    assert matrix == {
        f"{size}-{rule}-r{loops}-s0"
        for size in ("small", "medium")
        for rule in ("base", "deeploop")
        for loops in (1, 3, 5, 7)
    }
    sweep = {run.name for run in runs if "p_sweep" in run.draft.groups}
    exponents = ("0.3", "0.35", "0.4", "0.45", "0.5", "0.55", "0.6")
    assert sweep == {f"small-p{p}-r3-s{seed}" for p in exponents for seed in range(5)}
    assert len(runs) == 16 + 35
    training = paper.get("train_lm", "small-p0.45-r3-s2").spec["params"]["training"]
    assert (training["steps"], training["report_step"]) == (2700, 2000)


def test_its_cost_is_the_papers(paper: Plan) -> None:
    sums = totals(paper)
    assert round(sums["lm_matrix_gpu_hours"], -2) == 3700
    assert sums["p_sweep_gpu_hours"] == 35 * 6


def test_no_edit_rekeys_the_paper_unseen(paper: Plan) -> None:
    """When this fails, an edit changes what GPU-hours were spent on: `make golden-keys` if meant."""
    assert identities(paper) == json.loads(GOLDEN.read_text())


def test_two_names_of_one_specification_are_one_run() -> None:
    plan = load_plan(ROOT, "demo")
    run = plan.get("train_lm", "tiny-p0.5-r3-s1")
    assert run is plan.get("train_lm", "tiny-deeploop-r3-s1")
    assert set(run.draft.groups) == {"table1", "p_sweep"}
    assert sum("tiny-p0-r3-s0" in (r.name, *r.aliases) for r in plan) == 1


def test_planning_imports_nothing_heavy() -> None:
    heavy = ("torch", "polars", "numba", "lm_eval", "matplotlib", "pandas", "snakemake", "dvc")
    script = (
        "import sys\nfrom deeploop.cli import main\n"
        "assert main(['plan', '--suite', 'paper', '--json']) == 0\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"
    answer = json.loads(done.stdout)
    assert {"suite", "runs", "totals"} <= set(answer)
    assert {"stage", "run", "gpus", "nodes", "gpu_hours", "inputs"} <= set(answer["runs"][0])


def test_the_committed_dvc_yaml_is_what_the_plan_says() -> None:
    """When this fails: `deeploop dvc`."""
    assert (ROOT / "dvc.yaml").read_text() == dvc_yaml(load_plan(ROOT))


MISTAKES = {
    "unknown key": ("steps: 450", "stepps: 450", "unknown key; did you mean 'steps'?"),
    "unknown key of a recipe": ("schedule: constant", "shedule: constant", "did you mean 'schedule'"),
    "negative loops": ("loops: [1, 3, 5], seeds: [0, 1, 2]", "loops: [1, -3], seeds: 0", "greater than 0"),
    "loops of no number": ("loops: [1, 3, 5], seeds: [0, 1, 2]", "loops: [one], seeds: 0", "integer"),
    "unknown rule": ("backbone: tiny, scaling: [base", "backbone: tiny, scaling: [bass", "'base'"),
    "unknown backbone": ("backbone: tiny, scaling", "backbone: tny, scaling", "did you mean 'tiny'?"),
    "unknown recipe": ("recipe: edge\n      steps: 450", "recipe: egde\n      steps: 450", "'edge'"),
    "unknown corpus": ("corpus: docstrings\n      recipe: edge\n      steps: 450", "corpus: docs\n      recipe: edge\n      steps: 450", "tokenize/docs"),
    "a run listed twice": ("loops: [1, 3, 5], seeds: [0, 1, 2]", "loops: [1, 1], seeds: 0", "listed twice"),
    "a key given twice": ("      overrides: {}", "      steps: 3\n      overrides: {}", "'steps' is given twice"),
    "an override of no run": ("overrides: {}", "overrides: {tiny-bas-r1-s0: {learning_rate: 1e-3}}", "did you mean 'tiny-base-r1-s0'?"),
    "a default suite that is not there": ("suite: demo", "suite: deom", "there is no suite 'deom'; did you mean 'demo'?"),
    "an unknown stage": ("    table1:\n    table2:", "    tabel1:\n    table2:", "did you mean 'table1'?"),
    "a rate that is text": ("learning_rate: 3e-3", "learning_rate: fast", "number"),
    "heads that do not divide": ("heads: 2\n    context_length: 64", "heads: 5\n    context_length: 64", "heads must divide"),
    "processes that do not divide the batch": ("execution: {log_every_steps: 25}", "execution: {processes: 3}", "3 processes do not divide the 4 rows of a batch"),
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "stages", root / "stages", ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_file_line_and_remedy(mistake: str, project: Path) -> None:
    old, new, says = MISTAKES[mistake]
    text = (ROOT / "params.yaml").read_text()
    assert old in text, mistake
    (project / "params.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(UserError) as error:
        load_plan(project)
    message = str(error.value)
    assert says in message
    assert re.match(r"params\.yaml(:\d+)?: ", message), message
    assert "\n" not in message


def test_a_suite_that_does_not_exist() -> None:
    with pytest.raises(UserError, match="there is no suite 'papr'; did you mean 'paper'"):
        load_plan(ROOT, "papr")


def test_notation_and_order_do_not_bear_on_identity(project: Path) -> None:
    text = (ROOT / "params.yaml").read_text()
    (project / "params.yaml").write_text(text)
    before = identities(load_plan(project))
    changed = text.replace(
        "learning_rate: 3e-3\n    warmup_steps: 30", "warmup_steps: 30\n    learning_rate: 0.003"
    )
    assert changed != text
    (project / "params.yaml").write_text("# a comment\n" + changed)
    assert identities(load_plan(project)) == before


def test_a_build_of_torch_is_no_other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "2.13.0+cu130")
    assert public_version("torch") == "2.13.0"


def test_python_is_in_no_specification(paper: Plan) -> None:
    text = " ".join(run.spec_text for run in paper)
    assert "python" not in text.lower()


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(identities(load_plan(ROOT, "paper")), indent=1) + "\n")
