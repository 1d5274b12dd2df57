"""Why a run must be computed: which key of which input changed, old value and new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deeploop.fileio import read_json
from deeploop.plan import Run
from deeploop.resolve import Resolver


def reasons(resolver: Resolver, run: Run) -> list[str]:
    """Return why a run is not current, most telling first; empty when it is."""
    if resolver.is_current(run):
        return []
    waiting = [up.id for up in run.inputs if not resolver.is_current(up)]
    lineage = lineage_of(resolver.root, run)
    if lineage is None:
        return ["never built here"]
    changes = list(spec_changes(lineage["spec"], run.spec))
    changes += _input_changes(resolver, lineage["inputs"], run)
    if waiting:
        changes.append(f"hangs on {', '.join(waiting)}")
    if not changes:
        changes.append("its bytes are not in the store")
    return changes


def external(run: Run) -> bool:
    """Say whether a checkpoint from elsewhere stands in place of the run's work."""
    return bool(run.spec["params"].get("external"))


def lineage_of(root: Path, run: Run) -> Mapping[str, Any] | None:
    """Return what the run was last built from: its specification and its inputs' digests."""
    lineage = read_json(root / run.folder / "lineage.json")
    return lineage if isinstance(lineage, dict) and "spec" in lineage else None


def spec_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each value of a specification that differs."""
    for key in sorted({**old, **new}):
        for path, before, after in differences(old.get(key), new.get(key), key):
            if path == "code":
                yield "its code changed"
            elif before is None:
                yield f"{path} is new: {_short(after)}"
            elif after is None:
                yield f"{path} is gone: it was {_short(before)}"
            else:
                yield f"{path}: {_short(before)} -> {_short(after)}"


def differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, old, new) of each leaf in which two values differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({**old, **new}):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}")
    elif _is_list(old) and _is_list(new) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{path}[{number}]")
    elif _plain(old) != _plain(new):
        yield path, old, new


def _input_changes(resolver: Resolver, old: Mapping[str, Any], run: Run) -> list[str]:
    changes = []
    for up in run.inputs:
        now = resolver.outputs.get(up)
        if up.id not in old:
            changes.append(f"input {up.id} is new")
        elif now is not None and now != old[up.id]:
            names = [n for n in sorted({**old[up.id], **now}) if old[up.id].get(n) != now.get(n)]
            changes.append(f"input {up.id} changed: {', '.join(names)}")
    current = {up.id for up in run.inputs}
    return changes + [f"input {name} is gone" for name in old if name not in current]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _short(value: Any, limit: int = 60) -> str:
    text = str(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
