"""status, explain, verify, gc, push and pull on a built project."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from tests.workflow.conftest import TOY, Project, make_project

RUN_A = "a: {learning_rate: 0.1, weight_decay: 0.2, seed: 0}\n        b:"
LR = ("params.yaml", RUN_A, RUN_A.replace("0.1,", "0.4,"))


def states(project: Project) -> dict[str, dict[str, object]]:
    runs = json.loads(project.deeploop("status", "--json").text)["runs"]
    return {f"{run['stage']}/{run['run']}": run for run in runs}


def test_status_says_what_is_stale_and_why(copy_of: Callable[[str], Project]) -> None:
    project = copy_of("snakemake")
    assert {run["state"] for run in states(project).values()} == {"built"}
    project.edit(*LR)
    project.edit(
        "params.yaml",
        "        c: {",
        "        d: {learning_rate: 1, weight_decay: 0}\n        c: {",
    )
    project.edit("stages/model.py", ":16]", ":15]")
    found = states(project)
    assert found["train/a"]["state"] == "stale"
    assert found["train/a"]["why"] == ["params.learning_rate: 0.1 -> 0.4"]
    assert found["train/d"]["state"] == "missing"
    assert found["evaluate/a"]["state"] == "waiting"
    assert found["train/b"]["state"] == "built"
    assert found["train/b"]["changed_since"] == ["code"]
    assert found["tokenize/text"]["changed_since"] == []
    text = project.deeploop("status")
    assert text.code == 0
    assert "* train/b" in text.text


def test_status_shows_an_interrupted_and_a_running_run(copy_of: Callable[[str], Project]) -> None:
    project = copy_of("snakemake")
    project.edit(*LR)
    process = project.start("snakemake", "-c1", "all", TOY_STEP_SECONDS="1")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("train/a: started"):
            break
    assert states(project)["train/a"]["state"] == "running"
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert states(project)["train/a"]["state"] == "interrupted"


def test_explain_names_the_value_and_the_input(copy_of: Callable[[str], Project]) -> None:
    project = copy_of("snakemake")
    project.edit(*LR)
    text = project.deeploop("explain", "train", "a").text
    assert "train/a must be computed:" in text
    assert "params.learning_rate: 0.1 -> 0.4" in text
    (project.root / "data/demo.txt").write_text("other words\n")
    assert "files[0]: " in project.deeploop("explain", "tokenize", "text").text
    assert "hangs on train/b" in project.deeploop("explain", "evaluate", "b").text
    wrong = project.deeploop("explain", "train", "z")
    assert (wrong.code, wrong.text.count("\n")) == (2, 1)


def test_explain_leads_back_to_the_raw_data(copy_of: Callable[[str], Project]) -> None:
    text = copy_of("snakemake").deeploop("explain", "report").text
    assert "report/all is current" in text
    assert "from the file data/demo.txt" in text
    assert "from train/a, key" in text


def test_verify_finds_one_flipped_bit_and_the_next_build_mends_it(
    copy_of: Callable[[str], Project],
) -> None:
    project = copy_of("snakemake")
    assert project.deeploop("verify", "--deep").code == 0
    path = project.entry_of("train/b") / "outputs" / "weights.txt"
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    assert project.deeploop("verify").code == 0  # sizes are right
    outcome = project.deeploop("verify", "--deep")
    assert outcome.code == 1
    assert "demo/train/b: weights.txt has other bytes" in outcome.text
    assert "set aside as" in outcome.text
    built = project.snakemake()
    assert (built.code, built.computed) == (0, {"train/b"}), built.text
    assert project.deeploop("verify", "--deep").code == 0


def test_verify_names_each_fault(copy_of: Callable[[str], Project]) -> None:
    project = copy_of("snakemake")
    shutil.rmtree(project.entry_of("train/a"))
    (project.entry_of("train/c") / "outputs" / "weights.txt").write_text("x")
    manifest = project.root / "results/demo/vote/all/manifest.json"
    manifest.write_text(manifest.read_text().replace("vote", "veto"))
    outcome = project.deeploop("verify")
    assert outcome.code == 1
    assert "demo/train/a: its bytes are not in the store" in outcome.text
    assert "demo/train/c: a file in the store is gone or truncated" in outcome.text
    assert "demo/vote/all: its manifest.json is not what was written" in outcome.text
    assert "3 fault(s)" in outcome.text


def test_gc_removes_what_nothing_leads_to_and_says_so(copy_of: Callable[[str], Project]) -> None:
    project = copy_of("snakemake")
    old = project.entry_of("train/a")
    project.edit(*LR)
    assert project.snakemake().code == 0
    interrupted = old.parent / "0123.partial"
    wanted = old.parent / f"{project.entry_of('train/a').name}.partial"
    for partial in (interrupted, wanted):
        (partial / "work").mkdir(parents=True)
    dry = project.deeploop("gc", "--dry-run").text
    assert f"train/{old.name}" in dry
    assert old.is_dir()
    outcome = project.deeploop("gc")
    assert f"train/{old.name}  an entry that no suite shows" in outcome.text
    assert "train/0123.partial  an interrupted run that no suite wants" in outcome.text
    assert not old.exists()
    assert not interrupted.exists()
    assert wanted.exists()
    assert project.deeploop("verify", "--deep").code == 0
    assert not project.snakemake().computed
    assert "0 item(s)" in project.deeploop("gc").text


def test_results_travel_to_another_clone(built: dict[str, Project], tmp_path: Path) -> None:
    here = Project(tmp_path / "here")
    shutil.copytree(built["snakemake"].root, here.root, symlinks=True)
    remote = tmp_path / "a remote"
    here.run("dvc", "remote", "add", "-d", "place", str(remote))
    pushed = here.deeploop("push")
    assert pushed.code == 0, pushed.text
    assert "already there" in here.deeploop("push", "train", "a").text

    there = make_project(tmp_path / "there", TOY)
    one = there.deeploop("pull", "train", "a", "--remote", str(remote))
    assert one.code == 0, one.text
    assert "train/a: " in one.text
    assert "train/b" not in one.text
    pulled = there.deeploop("pull", "--remote", str(remote))
    assert pulled.code == 0, pulled.text
    assert there.manifests() == here.manifests()
    assert there.deeploop("verify", "--deep").code == 0
    for engine in ("snakemake", "dvc"):
        outcome = there.build(engine)
        assert (outcome.code, outcome.computed) == (0, set()), outcome.text
    assert (there.root / "reports/demo/report.txt").is_file()


def test_bytes_that_a_build_needs_are_fetched_from_the_default_remote(
    copy_of: Callable[[str], Project], tmp_path: Path
) -> None:
    for engine in ("snakemake", "dvc"):
        project = copy_of(engine)
        project.run("dvc", "remote", "add", "-d", "place", str(tmp_path / f"{engine} remote"))
        assert project.deeploop("push").code == 0
        shutil.rmtree(project.root / "store" / "train")
        assert not project.build(engine).computed  # nobody needs them
        project.edit("stages/evaluate.py", "% 101", "% 97")
        outcome = project.build(engine)
        assert outcome.code == 0, outcome.text
        assert "fetching train/a from" in outcome.text
        assert outcome.computed == {"evaluate/a", "evaluate/b", "evaluate/c", "report/all"}
        shutil.rmtree(project.root)


def test_a_transfer_is_resumed_and_checked(built: dict[str, Project], tmp_path: Path) -> None:
    here, remote = built["snakemake"], tmp_path / "remote"
    assert here.deeploop("push", "--remote", str(remote)).code == 0
    there = make_project(tmp_path / "there", TOY)
    weights = here.entry_of("train/a") / "outputs" / "weights.txt"
    sha256 = json.loads((here.root / "results/demo/train/a/manifest.json").read_text())["outputs"][
        "weights.txt"
    ]["sha256"]
    stored = remote / "files" / sha256[:2] / sha256[2:]
    stored.write_text("damaged in transit")
    outcome = there.deeploop("pull", "--remote", str(remote))
    assert outcome.code == 1
    assert "arrived with other bytes than its sha256 says" in outcome.text
    assert not list(there.root.glob("store/train/*/manifest.json"))
    shutil.copy(weights, stored)
    outcome = there.deeploop("pull", "--remote", str(remote))
    assert outcome.code == 0
    assert "tokenize/text: " not in outcome.text  # fetched before the fault
    assert there.deeploop("verify", "--deep").code == 0


def test_no_remote_is_one_line(built: dict[str, Project]) -> None:
    outcome = built["dvc"].deeploop("push")
    assert (outcome.code, outcome.text.count("\n")) == (2, 1)
    assert "dvc remote add" in outcome.text


def test_a_target_that_names_no_run_is_one_line(built: dict[str, Project]) -> None:
    outcome = built["snakemake"].snakemake("results/demo/train/zz/manifest.json")
    assert (outcome.code, outcome.text.count("Traceback")) == (2, 0)
    assert "suite demo has no run train/zz" in outcome.text
