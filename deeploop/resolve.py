"""Which runs are current, computing or undecided, from content alone; never by engines' records.

Walking the plan in topological order, a run is
- current, when its key is known and the store has it, or it was shown here with that key (its
  bytes may then be elsewhere: a fresh clone);
- computing, when its key is known and neither holds;
- undecided, when it hangs on runs that are computing.

What a computing run needs and is not here is fetched or computed too, and nothing else is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from deeploop.plan import Plan, Run
from deeploop.project import store_root
from deeploop.store import (
    Entry,
    Outputs,
    key_of,
    publish,
    published,
    restore_manifest,
    was_built,
    withdraw,
)

Fetch = Callable[[Run, Entry], bool]
"""Brings an entry from elsewhere into the store; says whether it could."""


class Resolver:
    """Decides a plan, and adopts what the store already holds.

    With `write`, manifests of current runs are brought up to date and their times put in
    topological order, so that an engine's clock agrees with their content. With `fetch`, bytes
    that a computing run needs are asked for elsewhere before they are made again.
    """

    def __init__(self, root: Path, plan: Plan, write: bool, fetch: Fetch | None = None) -> None:
        self.root, self.plan, self._write, self._fetch = root, plan, write, fetch
        self.store = store_root(root)
        self.outputs: dict[Run, Outputs] = {}
        """Of current runs."""
        self.keys: dict[Run, str] = {}
        """Of runs whose inputs are current."""
        self._waits: dict[Run, tuple[Run, ...]] = {}
        self._absent: set[Run] = set()
        """Current runs whose bytes are not here."""
        self.settle()

    def settle(self) -> None:
        """Decide what can be decided now; call again when a computing run has finished."""
        self._decide()
        while recalled := [run for run in self._recall() if not self._fetched(run)]:
            # Bytes that must be made again may come out different: decide anew behind them.
            for run in recalled:
                self._forget(run)
                if self._write:
                    withdraw(self.root, run)
            self._decide(forced=frozenset(recalled))

    def is_current(self, run: Run) -> bool:
        """Say whether the run's result is known and holds."""
        return run in self.outputs

    def is_computing(self, run: Run) -> bool:
        """Say whether the run must be computed, whatever else happens."""
        return run in self._waits.get(run, ())

    def is_absent(self, run: Run) -> bool:
        """Say whether the run is current and its bytes are not here."""
        return run in self._absent

    def computing(self) -> list[Run]:
        """Return the runs that must be computed."""
        return [run for run in self.plan if self.is_computing(run)]

    def undecided(self) -> list[Run]:
        """Return the runs that hang on computing ones."""
        return [r for r in self.plan if not self.is_current(r) and not self.is_computing(r)]

    def deciders(self, run: Run) -> tuple[Run, ...]:
        """Return the computing runs whose bytes will tell whether `run`, built before, holds."""
        if self.is_current(run) or self.is_computing(run) or not was_built(self.root, run):
            return ()
        return self._waits[run]

    def _decide(self, forced: frozenset[Run] = frozenset()) -> None:
        for run in self.plan:
            if run in self.outputs:
                continue
            waits = dict.fromkeys(w for up in run.inputs for w in self._waits.get(up, ()))
            if waits:
                self._waits[run] = tuple(waits)
            else:
                self._waits[run] = self._look_up(run, run in forced or self.is_computing(run))

    def _look_up(self, run: Run, missing: bool) -> tuple[Run, ...]:
        key = key_of(run.spec, [self.outputs[up] for up in run.inputs])
        self.keys[run] = key
        entry = Entry(self.store, run.stage, key)
        outputs = entry.outputs()
        if outputs is not None:
            self._absent.discard(run)
            self._adopt(run, entry, outputs)
            return ()
        known = published(self.root, run)
        if known is None or known[0] != key or missing:
            return (run,)
        self._absent.add(run)
        self.outputs[run] = known[1]
        if self._write:
            restore_manifest(self.root, run, known[1])
            self._keep_order(run)
        return ()

    def _adopt(self, run: Run, entry: Entry, outputs: Outputs) -> None:
        self.outputs[run] = outputs
        if self._write:
            upstream = [self.outputs[up] for up in run.inputs]
            publish(self.root, run, entry, outputs, upstream)
            self._keep_order(run)

    def _keep_order(self, run: Run) -> None:
        put_after(self.root / run.manifest, [self.root / up.manifest for up in run.inputs])

    def _recall(self) -> list[Run]:
        """Return current runs whose bytes a computing run needs and that are not here."""
        return [
            run
            for run in self._absent
            if run in self.outputs and any(run in c.inputs for c in self.computing())
        ]

    def _fetched(self, run: Run) -> bool:
        """Fetch a run's bytes, where there is a place to ask; say whether they are here now."""
        entry = Entry(self.store, run.stage, self.keys[run])
        if self._fetch is None or not self._fetch(run, entry):
            return False
        self._absent.discard(run)
        return True

    def _forget(self, run: Run) -> None:
        """Make a run and all that hangs on it undecided again."""
        for other in self.plan:
            if other is run or any(up not in self.outputs for up in other.inputs):
                self.outputs.pop(other, None)


def put_after(path: Path, inputs: Iterable[Path]) -> None:
    """Give a file a time that is not before its inputs', without touching its content."""
    newest = max((p.stat().st_mtime_ns for p in inputs if p.exists()), default=0)
    if path.exists() and path.stat().st_mtime_ns < newest:
        os.utime(path, ns=(newest, newest))


def closure(runs: Iterable[Run]) -> list[Run]:
    """Return the runs and all they hang on, inputs first."""
    found: dict[Run, None] = {}

    def visit(run: Run) -> None:
        for up in run.inputs:
            visit(up)
        found.setdefault(run)

    for run in runs:
        visit(run)
    return list(found)
