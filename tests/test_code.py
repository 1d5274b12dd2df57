"""What counts as a stage's code, and what does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deeploop.code import CodeDigests

STAGE = '''
"""A stage."""
from deeploop.text.words import split
import deeploop.nn.sums as sums

LIMIT = 3
STAGE = declare(run)

def helper(x):
    """Help."""
    return x + LIMIT

def run(job):
    """Run."""
    from deeploop.nn.late import final
    return final(helper(sums.total(split(job))))

def aside():
    return 1
'''
FILES = {
    "stages/__init__.py": "",
    "stages/thing.py": STAGE,
    "deeploop/__init__.py": "",
    "deeploop/stage.py": "def declare(run):\n    return run\n",
    "deeploop/plan.py": "BOOKKEEPING = 1\n",
    "deeploop/text/__init__.py": "",
    "deeploop/text/words.py": "def split(x):\n    return x.split()\n\ndef other(x):\n    return x\n",
    "deeploop/nn/__init__.py": "",
    "deeploop/nn/sums.py": "def total(x):\n    return _add(x)\n\ndef _add(x):\n    return sum(x)\n\n"
    "def unused(x):\n    return x\n",
    "deeploop/nn/late.py": "class Base:\n    size = 1\n\nclass Kind(Base):\n    pass\n\n"
    "def final(x) -> Kind:\n    return x\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def digest(root: Path) -> str:
    return CodeDigests({"deeploop": root, "stages": root}).digest("stages.thing")


def reached(root: Path) -> set[str]:
    return set(CodeDigests({"deeploop": root, "stages": root}).reached("stages.thing"))


def test_follows_names_through_imports_and_no_further(root: Path) -> None:
    assert reached(root) == {
        "stages.thing:run",
        "stages.thing:helper",
        "stages.thing:LIMIT",
        "deeploop.text.words:split",
        "deeploop.nn.sums:total",
        "deeploop.nn.sums:_add",
        "deeploop.nn.late:final",
        "deeploop.nn.late:Kind",
        "deeploop.nn.late:Base",
    }


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stages/thing.py", '"""Run."""', '"""Compute."""'),
        ("stages/thing.py", "    return x + LIMIT", "    # why\n    return (x  +\n LIMIT)"),
        ("stages/thing.py", "STAGE = declare(run)", "STAGE = declare(run, gpus=8)"),
        ("stages/thing.py", "def aside():\n    return 1", "def aside():\n    return 2"),
        ("deeploop/nn/sums.py", "def unused(x):\n    return x", "def unused(x):\n    return 2"),
        ("deeploop/stage.py", "return run", "return None"),
        ("deeploop/plan.py", "1", "2"),
    ],
)
def test_what_does_not_count(root: Path, name: str, old: str, new: str) -> None:
    before = digest(root)
    path = root / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert digest(root) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stages/thing.py", "x + LIMIT", "x - LIMIT"),
        ("stages/thing.py", "LIMIT = 3", "LIMIT = 4"),
        ("deeploop/text/words.py", "x.split()", "x.split(None)"),
        ("deeploop/nn/sums.py", "sum(x)", "max(x)"),
        ("deeploop/nn/late.py", "size = 1", "size = 2"),
        ("deeploop/nn/late.py", "class Base", "print(1)\n\nclass Base"),
        ("deeploop/nn/__init__.py", "", "import os\nos.environ['X'] = '1'\n"),
    ],
)
def test_what_counts(root: Path, name: str, old: str, new: str) -> None:
    before = digest(root)
    path = root / name
    path.write_text(path.read_text().replace(old, new, 1))
    assert digest(root) != before


def test_the_digest_is_the_same_on_other_pythons(root: Path) -> None:
    """The tree's own form is hashed, because ast.dump differs between versions."""
    found = set()
    for version in ("3.12", "3.13"):
        command = [f"python{version}", "-c", "import ast; print(1)"]
        try:
            if subprocess.run(command, capture_output=True, check=False).returncode:
                continue
        except FileNotFoundError:
            continue
        script = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
            "from pathlib import Path\nfrom deeploop.code import CodeDigests\n"
            f"root = Path({str(root)!r})\n"
            "print(CodeDigests({'deeploop': root, 'stages': root}).digest('stages.thing'))"
        )
        done = subprocess.run(
            [f"python{version}", "-c", script], capture_output=True, text=True, check=True
        )
        found.add(done.stdout.strip())
    if not found:
        pytest.skip(f"only Python {sys.version_info.major}.{sys.version_info.minor} is here")
    assert found == {digest(root)}
