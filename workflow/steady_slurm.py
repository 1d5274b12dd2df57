"""Snakemake's Slurm executor, made steady for builds that take weeks.

The plugin submits a Snakemake that starts a Snakemake in each job, asks `sacct` or `squeue` for
states in a way that can lose jobs for ever, and knows nothing of jobs it did not submit itself.
Here a job is `deeploop.cluster.job` and nothing else; states come from one squeue; a job that
computes the same result already, whoever submitted it, is taken over; a submission that Slurm
cannot take now is tried again. Scheduling, retries, cancelling and logs stay Snakemake's.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_slurm import Executor
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from deeploop.build import Build
from deeploop.cluster.queue import QueuedJob, comment_of, live_job, own_jobs
from deeploop.cluster.request import Refused, Request, submit
from deeploop.errors import EXIT_USER_ERROR
from deeploop.plan import Run

LOOKS = 3
"""A job is lost when so many looks at the queue in a row say so: requeued ones flicker."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds between tries to submit."""


def install(workflow: Any, build: Build) -> None:
    """Let a workflow that is about to run on Slurm use the steady executor."""
    steady = type("Executor", (SteadySlurm,), {"build": build})
    workflow.executor_plugin.executor = steady


class SteadySlurm(Executor):
    """The plugin's executor with submission and watching of its own."""

    build: Build

    def __init__(self, workflow: Any, logger: Any) -> None:
        # First of all: the plugin's constructor starts the thread that looks at the queue.
        self._waiting: dict[str, SubmittedJobInfo] = {}  # by Slurm's id
        self._looks: Counter[str] = Counter()
        self._told: set[str] = set()
        self._silent_since = 0.0
        super().__init__(workflow, logger)

    # Submitting: called in the plugin's threads.

    def run_job(self, job: Any) -> None:
        """Submit a job, or take over the one that computes the same."""
        try:
            run = self.build.run(job.rule.name, job.wildcards)
            for manifest in job.output:
                Path(manifest).unlink(missing_ok=True)
            self._wait_for(job, run, self._running(run) or self._submit(job, run))
        except Exception as error:
            if isinstance(error, Refused) and not error.transient:
                _forbid_retry(job)
            self.report_job_error(SubmittedJobInfo(job), msg=f"{job}: Slurm: {error}. ")

    def _running(self, run: Run) -> str | None:
        found = live_job(comment_of(self.build.entry(run).folder), own_jobs() or [])
        if found is None:
            return None
        self.logger.info(f"{run.id}: Slurm job {found.id} ({found.state.lower()}) computes it")
        return found.id

    def _submit(self, job: Any, run: Run) -> str:
        entry, history = self.build.entry(run), self.build.history(run)
        resources = job.resources
        gres = str(resources.get("gres") or "gpu:0")
        request = Request(
            cpus=job.threads,
            memory_mb=resources.mem_mb,
            minutes=resources.runtime,
            nodes=resources.nodes,
            gpus_per_node=int(gres.rpartition(":")[2]),
        )
        deadline = time.monotonic() + 60 * self.build.cluster.patience_minutes
        pause = FIRST_PAUSE
        while True:
            try:
                number = submit(
                    request,
                    self.build.cluster,
                    Path(self.workflow.workdir_init),
                    run.id,
                    comment_of(entry.folder),
                    history.slurm_log,
                    self.build.job_script(run),
                )
                break
            except Refused as refused:
                if not refused.transient or time.monotonic() > deadline or not self.wait:
                    raise
                self.logger.warning(f"{run.id}: sbatch: {refused}; trying again in {pause:.0f} s")
                self._pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                if found := self._running(run):  # sbatch may fail after Slurm has taken the job
                    return found
        history.append("submitted", number)
        self.logger.info(f"{run.id}: submitted as Slurm job {number}")
        return number

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.wait and time.monotonic() < end:
            time.sleep(0.2)

    def _wait_for(self, job: Any, run: Run, number: str) -> None:
        info = SubmittedJobInfo(job, external_jobid=number, aux={"run": run})
        self._waiting[number] = info
        self.report_job_submission(info)

    # Watching: called in the executor's thread, which must not die.

    async def sleep(self) -> None:
        """Wait until the next look; not a moment longer once Snakemake is about to end."""
        end = time.monotonic() + self.build.cluster.poll_seconds
        while self.wait and time.monotonic() < end:
            await asyncio.sleep(0.2)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """Look at the queue once; yield the jobs that go on."""
        jobs = await asyncio.to_thread(own_jobs) if active_jobs else []
        self._note_silence(jobs is None)
        known = {job.id: job for job in jobs or ()}
        for info in active_jobs:
            if jobs is None or not self._settle(info, known.get(info.external_jobid)):
                yield info

    def _note_silence(self, silent: bool) -> None:
        if silent and not self._silent_since:
            self._silent_since = time.monotonic()
            self.logger.warning("Slurm does not answer; jobs go on, waiting for it")
        elif not silent and self._silent_since:
            minutes = (time.monotonic() - self._silent_since) / 60
            self._silent_since = 0.0
            self.logger.info(f"Slurm answers again, after {minutes:.1f} minutes")

    def _settle(self, info: SubmittedJobInfo, seen: QueuedJob | None) -> bool:
        """Report a job that has ended, and say whether it has."""
        run: Run = info.aux["run"]
        if seen is not None and seen.completed:
            return self._succeed(info)
        if seen is not None and seen.alive:
            self._looks[seen.id] = 0
            return self._hopeless(info, run, seen)
        self._looks[info.external_jobid] += 1
        if self._looks[info.external_jobid] < LOOKS:
            return False
        if seen is None and Path(run.manifest).exists():  # Slurm has forgotten it
            return self._succeed(info)
        return self._fail(info, run, seen.state.lower() if seen else "gone from Slurm's queue")

    def _succeed(self, info: SubmittedJobInfo) -> bool:
        self._waiting.pop(info.external_jobid, None)
        self.report_job_success(info)
        return True

    def _fail(self, info: SubmittedJobInfo, run: Run, state: str) -> bool:
        self._waiting.pop(info.external_jobid, None)
        history = self.build.history(run)
        ending = history.ending_of(info.external_jobid)
        if ending.get("code") == EXIT_USER_ERROR or ending.get("final"):
            _forbid_retry(info.job)
        said = f": {ending['said']}" if ending.get("said") else ""
        logs = f"{history.path.parent}/{run.name}.*"
        number = info.external_jobid
        message = f"{run.id}: Slurm job {number} is {state}{said} (logs: {logs}). "
        self.report_job_error(info, msg=message)
        return True

    def _hopeless(self, info: SubmittedJobInfo, run: Run, seen: QueuedJob) -> bool:
        """Give up a job that would wait for ever; speak of one that waits for a person."""
        if seen.launch_failed:  # its node is at fault: another try may get another node
            self.cancel_jobs([info])
            return self._fail(info, run, f"cancelled ({seen.reason})")
        if seen.hopeless:
            self.cancel_jobs([info])
            _forbid_retry(info.job)
            return self._fail(info, run, f"cancelled, as it could never start ({seen.reason})")
        if seen.held and seen.id not in self._told:
            self._told.add(seen.id)
            self.logger.warning(
                f"{run.id}: Slurm job {seen.id} is held ({seen.reason}): "
                f"`scontrol release {seen.id}` lets it go on"
            )
        return False

    def cancel(self) -> None:
        """Cancel what is submitted, also what the plugin's list lacks while it polls."""
        with self.lock:
            self.wait = False
        self._job_submission_executor.shutdown(wait=True)
        self.cancel_jobs(list(self._waiting.values()))
        self.shutdown()

    def shutdown(self) -> None:
        """End; the plugin's way, but for submissions that wait for Slurm."""
        with self.lock:
            self.wait = False
        super().shutdown()


def _forbid_retry(job: Any) -> None:
    """Make a failure final that a second try cannot mend."""
    job.attempt = job.restart_times + 1
