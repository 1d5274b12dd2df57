"""Exactly what changed is rebuilt: each row of the table, in both engines."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow.conftest import Project

ENGINES = ("snakemake", "dvc")
TRAININGS = {"train/a", "train/b", "train/c"}
SCORES = {"evaluate/a", "evaluate/b", "evaluate/c"}
REPORT = {"report/all"}
OF_A = {"train/a", "evaluate/a"} | REPORT
TEXT = {"tokenize/text"}


def touch_everything(project: Project) -> None:
    files = [
        *project.root.glob("results/**/*.json"),
        *project.root.glob("stages/*.py"),
        *project.root.glob("data/*"),
        project.root / "params.yaml",
    ]
    for path in sorted(files, reverse=True):
        os.utime(path)


def reorder_and_comment(project: Project) -> None:
    project.edit(
        "params.yaml",
        "        b: {learning_rate: 0.2, weight_decay: 0.1, seed: 1}",
        "        b: {seed: 1, weight_decay: 1e-1, learning_rate: 2.0e-1}  # the same",
    )
    project.edit("params.yaml", "suite: demo", "# hello\nsuite: demo")


def reformat_code(project: Project) -> None:
    for path in project.root.glob("stages/*.py"):
        text = "# a comment\n" + path.read_text().replace('"""', '"""Changed. ', 1)
        path.write_text(re.sub(r"\(job\.folder /", "(  job.folder   /", text))
    path = project.root / "deeploop" / "nn" / "config.py"
    path.write_text(path.read_text() + "\n# a comment\n")


def edit(name: str, old: str, new: str) -> Callable[[Project], None]:
    return lambda project: project.edit(name, old, new)


def both(*changes: Callable[[Project], None]) -> Callable[[Project], None]:
    def change(project: Project) -> None:
        for each in changes:
            each(project)

    return change


def forget_engines(project: Project) -> None:
    for name in (".snakemake", ".dvc/tmp"):
        shutil.rmtree(project.root / name, ignore_errors=True)
    (project.root / "dvc.lock").unlink(missing_ok=True)


def keep_only_store(project: Project) -> None:
    forget_engines(project)
    shutil.rmtree(project.root / "results")


def keep_only_results(project: Project) -> None:
    forget_engines(project)
    shutil.rmtree(project.root / "store")


def lose(run: str) -> Callable[[Project], None]:
    return lambda project: shutil.rmtree(project.entry_of(run))


def truncate(run: str, name: str) -> Callable[[Project], None]:
    return lambda project: (project.entry_of(run) / "outputs" / name).write_text("x")


PARAMS, A = "params.yaml", "a: {learning_rate: 0.1, weight_decay: 0.2, seed: 0}\n        b:"
MODEL = edit("stages/model.py", ":16]", ":15]")
RESCORE = edit("stages/evaluate.py", "% 101", "% 97")

ROWS: dict[str, tuple[Callable[[Project], None], set[str]]] = {
    "nothing": (lambda project: None, set()),
    "touch": (touch_everything, set()),
    "comments, order and notation": (reorder_and_comment, set()),
    "a key no built run uses": (edit(PARAMS, "title: Smoke", "title: Other"), set()),
    "one learning rate": (edit(PARAMS, A, A.replace("0.1,", "0.4,")), OF_A),
    "two values swapped": (
        edit(PARAMS, A, "a: {learning_rate: 0.2, weight_decay: 0.1, seed: 0}\n        b:"),
        OF_A,
    ),
    "comments, docstrings and format": (reformat_code, set()),
    "code of an unpinned stage": (RESCORE, SCORES | REPORT),
    "code of the report": (edit("stages/report.py", '"\\n".join', '"\\n\\n".join'), REPORT),
    "code that a stage reaches": (edit("stages/words.py", ".split()", ".split(None)"), TEXT),
    "code that nothing reaches": (edit("stages/words.py", "[::-1]", "[::-2]"), set()),
    "code of a pinned stage": (MODEL, set()),
    "pinned code and the stage's version": (
        both(MODEL, edit(PARAMS, "train:  #", "train:\n      version: 2  #")),
        TRAININGS | SCORES | REPORT,
    ),
    "pinned code and a run's version": (
        both(MODEL, edit(PARAMS, "seed: 1}", "seed: 1, version: 2}")),
        {"train/b", "evaluate/b"} | REPORT,
    ),
    "a recipe's value": (
        edit(PARAMS, "momentum: 0.9", "momentum: 0.8"),
        TRAININGS | SCORES | REPORT,
    ),
    "a default that runs use": (
        both(
            edit("stages/evaluate.py", "shots: int = 0", "shots: int = 5"),
            edit(
                PARAMS,
                "grids: {file: data/grids.txt, augmentations: 2}",
                "grids: {file: data/grids.txt}",
            ),
        ),
        {"grids/all", "vote/all"} | REPORT,
    ),
    "execution": (edit(PARAMS, "{gpus: 1, micro_batch: 4, workers: 1}", "{gpus: 8}"), set()),
    "text with the same tokens": (
        lambda project: (project.root / "data/demo.txt").write_text("The\n quick brown\tfox\n"),
        TEXT,
    ),
    "other text": (
        lambda project: (project.root / "data/demo.txt").write_text("The slow brown fox\n"),
        TEXT | TRAININGS | SCORES | REPORT,
    ),
    "a run added": (
        edit(
            PARAMS, "        c: {", "        d: {learning_rate: 0.7, weight_decay: 0}\n        c: {"
        ),
        {"train/d", "evaluate/d"} | REPORT,
    ),
    "a run removed": (
        edit(PARAMS, "        c: {learning_rate: 0.3, weight_decay: 0.1, seed: 2}\n", ""),
        REPORT,
    ),
    "engines' records deleted": (forget_engines, set()),
    "a clone with the store": (keep_only_store, set()),
    "a clone with manifests": (keep_only_results, set()),
    "a stored output deleted": (lose("train/a"), set()),
    "a stored output truncated": (truncate("train/a", "weights.txt"), set()),
    "a stored output deleted, and needed": (
        both(lose("train/a"), RESCORE),
        {"train/a"} | SCORES | REPORT,
    ),
    "a stored output truncated, and needed": (
        both(truncate("train/b", "weights.txt"), RESCORE),
        {"train/b"} | SCORES | REPORT,
    ),
    "lost far upstream, and needed": (
        both(lose("tokenize/text"), edit(PARAMS, "seed: 2}", "seed: 3}")),
        {"tokenize/text", "train/c", "evaluate/c"} | REPORT,
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", ROWS)
def test_exactly_what_changed_is_computed(
    row: str, engine: str, copy_of: Callable[[str], Project]
) -> None:
    project, (change, expected) = copy_of(engine), ROWS[row]
    change(project)
    outcome = project.build(engine)
    assert outcome.code == 0, outcome.text
    assert outcome.computed == expected, outcome.text
    if engine == "snakemake":
        assert outcome.jobs == expected, "a job was started that found nothing to do"
    again = project.build(engine)
    assert (again.code, again.computed) == (0, set()), again.text


@pytest.mark.parametrize("engine", ENGINES)
def test_a_value_changed_and_changed_back_costs_nothing(
    engine: str, copy_of: Callable[[str], Project]
) -> None:
    project = copy_of(engine)
    before, manifests = (project.root / PARAMS).read_text(), project.manifests()
    edit(PARAMS, A, A.replace("0.1,", "0.4,"))(project)
    assert project.build(engine).computed == OF_A
    (project.root / PARAMS).write_text(before)
    outcome = project.build(engine)
    assert (outcome.code, outcome.computed) == (0, set()), outcome.text
    assert project.manifests() == manifests


@pytest.mark.parametrize("order", ["snakemake dvc snakemake", "dvc snakemake dvc"])
@pytest.mark.parametrize("kind", ["text", "value"])
def test_engines_in_any_order_are_never_stale(
    order: str, kind: str, copy_of: Callable[[str], Project]
) -> None:
    first, second, third = order.split()
    project = copy_of(first)
    files = {name: (project.root / name).read_text() for name in (PARAMS, "data/demo.txt")}
    of_a = project.manifests()
    if kind == "text":
        (project.root / "data/demo.txt").write_text("B text\n")
    else:
        edit(PARAMS, A, A.replace("0.1,", "0.4,"))(project)
    assert project.build(second).computed
    assert project.manifests() != of_a
    for name, text in files.items():
        (project.root / name).write_text(text)
    outcome = project.build(third)
    assert (outcome.code, outcome.computed) == (0, set()), outcome.text
    assert project.manifests() == of_a
    for engine in (second, third):
        after = project.build(engine)
        assert (after.code, after.computed) == (0, set()), after.text
    assert project.manifests() == of_a


def test_dvc_and_snakemake_build_the_same_bytes(built: dict[str, Project]) -> None:
    assert built["dvc"].manifests() == built["snakemake"].manifests()
    report = Path("reports/demo/report.txt")
    assert (built["dvc"].root / report).read_text() == (
        built["snakemake"].root / report
    ).read_text()


def test_a_target_builds_only_what_it_needs(tmp_path: Path) -> None:
    from tests.workflow.conftest import make_project

    for engine in ENGINES:
        project = make_project(tmp_path / engine)
        outcome = project.build(engine, "vote")
        assert outcome.code == 0, outcome.text
        assert outcome.computed == {"grids/all", "vote/all"}
