"""Stage `train_arc_lm`: the looped GPT on ARC, trained causally beside HRM on the same build.

A sequence is a puzzle's embedding, the tokens of an input's square and those of its output's; the
loss is on the output. Backbone and recipe are named as for `train_lm`; context and vocabulary are
the data's.

    train_arc_lm:
      dataset: arc-aug-1000          # a run of build_arc
      backbone: grids
      recipe: grids
      steps: 100_000
      groups:
        arc_lm: {scaling: [base, deeploop], loops: [1, 3], seeds: [0]}

Runs are named for rule, loops and seed: `gpt-deeploop-r3-s0`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Literal

from pydantic import Field

from deeploop.errors import UserError
from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.scaling import RULES
from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage, StageSection, resolved
from deeploop.training.config import Execution, Recipe, rows_each
from deeploop.training.grid_config import GridTraining
from deeploop.training.hrm_config import HRMValidation

Rule = Literal["base", "deepnorm", "deeploop"]


class Cost(Section):
    """What one training asks of a cluster; execution only."""

    gpus: int = Field(default=0, ge=0)
    nodes: int = Field(default=1, ge=1)
    gpu_hours: dict[int, float] = {}
    """Loops -> GPU-hours of a whole run; our estimate."""
    micro_batch: dict[int, int] = {}
    """Loops -> rows a GPU takes at once."""
    memory_gb: float = Field(default=4.0, gt=0)
    """Host memory a node."""


class Group(Section):
    """Runs for one purpose: every combination of the lists is a run."""

    scaling: tuple[Rule, ...] = Field(min_length=1)
    """base (p = 0), deepnorm (1/4), deeploop (1/2)."""
    loops: tuple[int, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)


class TrainArcLMSection(StageSection):
    """Which looped GPTs a suite trains on ARC."""

    dataset: str
    """A run of `build_arc`."""
    backbone: str
    """A name in `backbones`."""
    recipe: str
    """A name in `recipes`; its batch counts rows."""
    steps: int = Field(gt=0)
    puzzle_learning_rate: float = Field(default=1e-2, ge=0)
    """See `GridTraining`."""
    validation: HRMValidation = HRMValidation()
    groups: dict[str, Group] = Field(min_length=1)
    """Purpose -> runs."""
    cost: Cost = Cost()
    execution: Execution = Execution()


def expand(section: TrainArcLMSection, plan: Planned) -> Iterator[Draft]:
    """Plan one run for each rule, number of loops and seed.

    Raises:
        UserError: a run stands in two groups.
    """
    names: set[str] = set()
    for purpose, group in section.groups.items():
        for rule, loops, seed in product(group.scaling, group.loops, group.seeds):
            draft = _draft(section, plan, purpose, rule, loops, seed)
            if draft.name in names:
                raise UserError(f"groups.{purpose}: run '{draft.name}' is listed twice; remove one")
            names.add(draft.name)
            yield draft


def run(job: Job) -> None:
    """Train the model, resuming where an interrupted attempt left off."""
    from deeploop.training.grid_task import train_grid_gpt

    train_grid_gpt(
        params=job.params,
        data_folder=job.input("build_arc").folder,
        folder=job.folder,
        work=job.work,
        execution=job.execution,
        telemetry=job.telemetry,
        stop=job.stop,
        label=job.run,
    )


def _draft(
    section: TrainArcLMSection, plan: Planned, purpose: str, rule: Rule, loops: int, seed: int
) -> Draft:
    p = RULES[rule]
    model = GPTConfig(
        backbone=Backbone(**plan.shared("backbones", section.backbone)),
        loops=loops,
        scaling=Scaling(alpha_exponent=p, beta_exponent=p),
    )
    training = GridTraining(
        recipe=Recipe(**plan.shared("recipes", section.recipe)),
        puzzle_learning_rate=section.puzzle_learning_rate,
        steps=section.steps,
        seed=seed,
        validation=section.validation,
    )
    cost = section.cost
    processes = cost.gpus or section.execution.processes
    rows_each(training.recipe.batch_sequences, processes)  # before it is in a queue
    execution = resolved(section.execution) | {"processes": processes, "nodes": cost.nodes}
    execution["micro_batch"] = execution["micro_batch"] or cost.micro_batch.get(loops)
    return Draft(
        name=f"gpt-{rule}-r{loops}-s{seed}",
        params={"model": resolved(model), "training": resolved(training)},
        inputs=(("build_arc", section.dataset),),
        resources=Resources.of_training(
            cost.gpus, cost.nodes, cost.gpu_hours.get(loops, 0.0), cost.memory_gb
        ),
        execution=execution,
        version=section.version,
        groups=(purpose,),
        cell={"rule": rule, "p": p, "loops": loops, "seed": seed},
    )


STAGE = Stage(
    name="train_arc_lm",
    about="looped GPTs on ARC",
    section=TrainArcLMSection,
    expand=expand,
    pinned=True,
    libraries=("torch", "numpy", "safetensors"),
)
