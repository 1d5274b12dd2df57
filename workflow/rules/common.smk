"""The plan as it is asked for by each stage: runs, what they read, whether they must compute."""

import os
import sys

# A job of a build reads the code that the build was planned with.
sys.path.insert(0, os.environ.get("DEEPLOOP_CODE", workflow.basedir))
sys.path.append(os.path.join(workflow.basedir, "workflow"))

from deeploop.build import Build


def on_slurm(workflow, build):
    """Submit and watch jobs as `workflow/steady_slurm.py` does."""
    from steady_slurm import install

    install(workflow, build)


BUILD = Build(workflow, config.get("suite"), on_slurm)


def upstream(stage):
    """Input function: the manifests that a run reads."""
    return lambda wildcards: [
        str(up.manifest) for up in BUILD.run(stage, wildcards).inputs
    ]


def settled(stage):
    """Input function: what must be settled first to know whether a run has to compute."""

    def decide(wildcards):
        run = BUILD.run(stage, wildcards)
        for up in BUILD.deciders(run):
            checkpoints.settle.get(stage=up.stage, run=up.name)
        if BUILD.must_compute(run):
            workflow.dag.forcefiles.add(str(run.manifest))
        return []

    return decide


def needs(stage, name):
    """Resource function: what the plan asks for a run."""
    return lambda wildcards: getattr(BUILD.run(stage, wildcards).resources, name)
