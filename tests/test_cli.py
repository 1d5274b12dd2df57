"""The `deeploop` command as people meet it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deeploop import __version__
from deeploop.cli import build_parser

ROOT = Path(__file__).parents[1]


def deeploop(
    *arguments: str, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deeploop", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_version_and_help() -> None:
    assert deeploop("--version").stdout == f"deeploop {__version__}\n"
    done = deeploop("--help")
    assert done.returncode == 0
    assert "exit codes" in done.stdout.lower()


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield sub
                yield from parsers(sub)


def test_every_command_and_option_is_documented() -> None:
    found = list(parsers(build_parser()))
    assert len(found) > 10
    for parser in found:
        assert parser.description, parser.prog
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction):
                assert action.help, f"{parser.prog}: {action.option_strings or action.dest}"


def test_outside_a_project(tmp_path: Path) -> None:
    done = deeploop("plan", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no params.yaml" in done.stderr


def test_an_unknown_run_is_one_line() -> None:
    done = deeploop("run", "train_lm", "tiny-bass-r1-s0")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "did you mean 'tiny-base-r1-s0'?" in done.stderr


def test_a_missing_package_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "pydantic").mkdir()
    (tmp_path / "pydantic" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'pydantic'\", name='pydantic')"
    )
    done = deeploop("plan", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "package pydantic is missing" in done.stderr


@pytest.mark.parametrize("command", [("plan",), ("dvc", "--check")])
def test_a_missing_stages_folder(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("suite: demo\nsuites: {demo: }\n")
    done = deeploop(*command, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has no stages/ folder" in done.stderr
