"""Results against the store: what was shown must be what lies there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deeploop.fileio import read_json, sha256_text
from deeploop.project import store_root
from deeploop.store import Entry


@dataclass(frozen=True)
class Shown:
    """A run as its small files show it, whether or not a plan still has it."""

    folder: Path
    suite: str
    stage: str
    run: str
    key: str
    manifest_sha256: str

    @property
    def id(self) -> str:
        """`suite/stage/run`."""
        return f"{self.suite}/{self.stage}/{self.run}"


def shown_runs(root: Path, suite: str | None = None) -> Iterator[Shown]:
    """Yield the runs that any suite (or one) shows."""
    for path in sorted(root.glob(f"results/{suite or '*'}/*/*/entry.json")):
        entry = read_json(path)
        if isinstance(entry, dict) and "key" in entry:
            name, stage, run = path.parts[-4], path.parts[-3], path.parts[-2]
            sha256 = entry.get("manifest_sha256", "")
            yield Shown(path.parent, name, stage, run, entry["key"], sha256)


def verify(root: Path, deep: bool, suite: str | None = None) -> Iterator[str]:
    """Yield one line for each fault.

    With `deep` every file is read and hashed; a damaged entry is set aside and no longer shown,
    so that the next build makes it again.
    """
    checked: dict[tuple[str, str], list[str]] = {}
    for shown in shown_runs(root, suite):
        yield from _manifest_faults(shown)
        entry = Entry(store_root(root), shown.stage, shown.key)
        at = (shown.stage, shown.key)
        if at not in checked:
            checked[at] = _store_faults(entry, deep)
            if deep and checked[at] and entry.folder.is_dir():
                checked[at].append(f"set aside as {entry.set_aside().name}")
        if checked[at]:
            yield f"{shown.id}: {'; '.join(checked[at])}"
            if deep and not entry.folder.is_dir():
                (shown.folder / "manifest.json").unlink(missing_ok=True)
                (shown.folder / "entry.json").unlink()


def _manifest_faults(shown: Shown) -> Iterator[str]:
    try:
        text = (shown.folder / "manifest.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        yield f"{shown.id}: its manifest.json is missing or unreadable"
        return
    if sha256_text(text) != shown.manifest_sha256:
        yield f"{shown.id}: its manifest.json is not what was written"


def _store_faults(entry: Entry, deep: bool) -> list[str]:
    if not entry.folder.is_dir():
        return ["its bytes are not in the store"]
    if deep:
        return entry.damage()
    return [] if entry.outputs() is not None else ["a file in the store is gone or truncated"]
