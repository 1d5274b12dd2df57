"""One build by Snakemake: planned when the Snakefile is read, begun when the DAG is built.

In the main process a `Build` decides what must compute; in the jobs it starts, which read the
Snakefile again, it only looks up the runs of the frozen plan.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

from deeploop.cluster.attempts import History
from deeploop.cluster.job import environment_of, script_of
from deeploop.cluster.request import require_possible
from deeploop.cluster.settings import Cluster, read_cluster
from deeploop.code import CodeDigests
from deeploop.document import read_document
from deeploop.errors import EXIT_FAILURE, EXIT_USER_ERROR, BuildError, UserError
from deeploop.frozen import FrozenPlan, code_path, freeze_code, freeze_plan, write_specs
from deeploop.guard import announce, require_confirmation
from deeploop.locks import hold_build_lock
from deeploop.plan import Plan, Run, load_plan, public_version
from deeploop.project import PLAN_FILE, store_root
from deeploop.remote import fetcher
from deeploop.resolve import Resolver, closure
from deeploop.stage import Stage
from deeploop.store import Entry, key_of, published

T = TypeVar("T")


class Build:
    """What the rules ask: the runs, their order, and which must compute.

    Args:
        workflow: Snakemake's object of that name.
        suite: the suite; the default of params.yaml when absent.
        on_slurm: called before anything is submitted, when Slurm is what the build runs on.
    """

    def __init__(
        self, workflow: Any, suite: str | None, on_slurm: Callable[[Any, Build], None]
    ) -> None:
        self._workflow = workflow
        self._on_slurm = on_slurm
        self._root = Path(workflow.basedir)
        self._plan: Plan | None = None
        self._resolver: Resolver | None = None
        self.cluster = Cluster()
        self._lock: IO[str] | None = None  # held as long as this object, so as Snakemake, lives
        if workflow.is_main_process:
            self._plan = _or_exit(lambda: load_plan(self._root, suite))
            self.suite, self.runs = self._plan.suite, list(self._plan)
        else:
            frozen = FrozenPlan(self._root, os.environ["DEEPLOOP_PLAN"])
            self.suite, self.runs = frozen.suite, frozen.runs()
        self.stages: list[Stage] = list(dict.fromkeys(run.declaration for run in self.runs))
        self._by_name = {(run.stage, run.name): run for run in self.runs}

    def run(self, stage: str, wildcards: Mapping[str, str]) -> Run:
        """Return the run that a rule's wildcards name; a target that names none ends the build."""
        name = wildcards.get("run", "all")
        return self._by_name.get((stage, name)) or _or_exit(lambda: self._unknown(stage, name))

    def _unknown(self, stage: str, name: str) -> NoReturn:
        assert self._plan is not None  # a job has the run it was made for
        known = self._plan.get(stage, name)
        raise UserError(f"{stage}/{name} is another name of {known.id}: ask for {known.manifest}")

    def deciders(self, run: Run) -> tuple[Run, ...]:
        """Return the runs whose bytes must be known before `run` can be decided."""
        if self._plan is None:  # a job decides nothing
            return ()
        if self._resolver is None:
            self._resolver = _or_exit(self._begin)
        _or_exit(self._resolver.settle)
        return self._resolver.deciders(run)

    def must_compute(self, run: Run) -> bool:
        """Say whether the run's result is not there."""
        return self._resolver is not None and not self._resolver.is_current(run)

    def _begin(self) -> Resolver:
        """Take the lock, freeze, resolve and guard, now that Snakemake knows what it is to do.

        Whoever only looks (a dry run) writes nothing while another build is at work.
        """
        workflow, plan = self._workflow, self._plan
        assert plan is not None
        building = workflow.executor_plugin is not None and not workflow.dryrun
        self._lock = hold_build_lock(self._root, "snakemake", wait=building)
        if building:
            self._freeze(plan)
        fetch = fetcher(self._root) if building else None
        resolver = Resolver(self._root, plan, self._lock is not None, fetch)
        wanted = closure(_wanted(list(plan), workflow.dag_settings.targets))
        hours = announce(resolver, set(wanted))
        if building:
            self._prepare_cluster(resolver, wanted)
            require_confirmation(resolver, hours)
        return resolver

    def _prepare_cluster(self, resolver: Resolver, wanted: Collection[Run]) -> None:
        """On Slurm, make sure that it can run what is planned, and that jobs will be ours."""
        if self._workflow.executor_plugin.name != "slurm":
            return
        self.cluster = read_cluster(self._root)
        runs = [run for run in wanted if not resolver.is_current(run) and not run.declaration.local]
        require_possible(runs, self.cluster)
        self._on_slurm(self._workflow, self)

    def entry(self, run: Run) -> Entry:
        """Return where in the store a run that must compute, with its inputs built, will be."""
        resolver = self._resolver
        assert resolver is not None
        outputs = [published(self._root, up) for up in run.inputs]
        known = [found[1] for found in outputs if found is not None]
        if len(known) < len(outputs):
            raise BuildError(f"{run.id}: an input is not built")
        return Entry(store_root(self._root), run.stage, key_of(run.spec, known))

    def job_script(self, run: Run) -> str:
        """Return the batch script of a run's Slurm job."""
        libraries = {name for stage in self.stages for name in stage.libraries}
        environment = environment_of(
            os.environ["DEEPLOOP_PLAN"],
            Path(os.environ["DEEPLOOP_CODE"]),
            {name: public_version(name) for name in libraries},
            self.cluster.attempts_without_progress,
        )
        return script_of(run, self.entry(run), self.cluster, environment)

    def history(self, run: Run) -> History:
        """Return the history of a run's Slurm jobs."""
        return History(self._root, run.suite, run.stage, run.name)

    def _freeze(self, plan: Plan) -> None:
        """Keep what was planned for the jobs; refuse when it was edited since it was read."""
        code = freeze_code(self._root, plan.stages)
        frozen = code_path(self._root, code)
        tree = CodeDigests({"deeploop": frozen, "stages": frozen}).tree
        _, text = read_document(self._root / PLAN_FILE)
        if (tree, text) != (plan.code_tree, plan.text):
            raise BuildError("params.yaml or code was edited meanwhile: type the command again")
        write_specs(self._root, plan)
        os.environ["DEEPLOOP_PLAN"] = freeze_plan(self._root, plan, code)
        os.environ["DEEPLOOP_CODE"] = str(frozen)

    def manifest_pattern(self, stage: str) -> str:
        """Return a stage's output with a wildcard, or without when it has one run."""
        return f"results/{self.suite}/{stage}/{self._name_pattern(stage)}/manifest.json"

    def log_pattern(self, stage: str) -> str:
        """Return a stage's log file likewise."""
        return f"logs/{self.suite}/{stage}/{self._name_pattern(stage)}.log"

    def _name_pattern(self, stage: str) -> str:
        return "all" if (stage, "all") in self._by_name else "{run}"


def _or_exit(action: Callable[[], T]) -> T:
    """Return an action's result; its mistake ends the engine's process with one line."""
    try:
        return action()
    except UserError as error:
        _exit(str(error), EXIT_USER_ERROR)
    except BuildError as error:
        _exit(str(error), EXIT_FAILURE)
    except OSError as error:
        _exit(f"{error.strerror}: {error.filename}", EXIT_FAILURE)


def _exit(message: str, code: int) -> NoReturn:
    """End the engine's process: Snakemake would wrap an exit in a traceback."""
    print(f"deeploop: {message}", file=sys.stderr, flush=True)
    os._exit(code)


def _wanted(runs: list[Run], targets: Collection[str]) -> list[Run]:
    """Return the runs that targets name: `all`, a stage, or a manifest's path."""
    wanted = [run for run in runs if run.stage in targets or str(run.manifest) in targets]
    return wanted if wanted and "all" not in targets else runs
