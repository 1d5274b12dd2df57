"""Stage `train_hrm`: an arm of Table 3, a seed of its control, or a point of HRM's p-sweep.

params.yaml gives the architecture, the training, and the runs by purpose:

    train_hrm:
      dataset: arc-aug-1000          # a run of build_arc
      training: {epochs: 100_000}    # the rest are the published values
      groups:
        table3: {scaling: [vanilla, deeploop], seeds: [0, 1, 2, 3]}
        hrm_p_sweep: {p: [0.25, 0.45, 0.6], seeds: [0]}

Runs are named for their rule, or their p, and their seed: `hrm-deeploop-s1`, `hrm-p0.45-s0`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Literal

from pydantic import Field, create_model, model_validator

from deeploop.errors import UserError, nearest
from deeploop.nn.hrm_config import HRMArchitecture, HRMScaling
from deeploop.scaling import RULES
from deeploop.stage import Draft, Job, Planned, Resources, Section, Stage, StageSection, resolved
from deeploop.training.config import Execution, rows_each
from deeploop.training.hrm_config import HRMRecipe, HRMTraining, HRMValidation

Rule = Literal["vanilla", "deepnorm", "deeploop"]
EXPONENTS: dict[Rule, float] = {
    "vanilla": RULES["base"],
    "deepnorm": RULES["deepnorm"],
    "deeploop": RULES["deeploop"],
}


class Length(Section):
    """A training apart from its seed; see `HRMTraining`."""

    recipe: HRMRecipe = HRMRecipe()
    steps: int | None = Field(default=None, gt=0)
    epochs: int | None = Field(default=None, gt=0)
    validation: HRMValidation = HRMValidation()
    snapshot_steps: tuple[int, ...] = ()


class Cost(Section):
    """What one training asks of a cluster; execution only."""

    gpus: int = Field(default=0, ge=0)
    nodes: int = Field(default=1, ge=1)
    gpu_hours: float = Field(default=0.0, ge=0)
    """Of a whole run; our estimate: the paper gives no cost of HRM."""
    memory_gb: float = Field(default=4.0, gt=0)
    """Host memory a node."""


class Group(Section):
    """Runs for one purpose: every rule with every seed."""

    scaling: tuple[Rule, ...] = ()
    """Named rules: vanilla (p = 0), deepnorm (1/4), deeploop (1/2)."""
    p: tuple[float, ...] = ()
    """Exponents of both modules; one that a named rule has is that rule's run."""
    custom: dict[str, HRMScaling] = Field(default_factory=dict)
    """Label -> any other scaling, e.g. exponents of each module."""
    seeds: tuple[int, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_a_rule(self) -> Group:
        if not (self.scaling or self.p or self.custom):
            raise ValueError("give `scaling`, `p` or `custom`")
        return self


_RecipeFields: dict[str, Any] = {
    name: (field.annotation | None, Field(default=None, description="replaces the recipe's"))  # type: ignore[operator]
    for name, field in HRMRecipe.model_fields.items()
}
RecipeOverride = create_model("RecipeOverride", __base__=Section, **_RecipeFields)


class Override(RecipeOverride):
    """What one run does differently: any value of the recipe, `steps`, or its version."""

    steps: int | None = Field(default=None, gt=0)
    version: int = Field(default=1, ge=1)
    """Raise it to train the run anew."""


class TrainHRMSection(StageSection):
    """Which HRMs a suite trains, and on what."""

    dataset: str
    """A run of `build_arc`."""
    model: HRMArchitecture = HRMArchitecture()
    """Its `scaling` is replaced by each run's rule; `n_g`, constants and targets of it are kept."""
    training: Length
    groups: dict[str, Group] = Field(min_length=1)
    """Purpose (`table3`, `hrm_p_sweep`) -> runs."""
    overrides: dict[str, Override] = {}
    """Run -> what it does differently, e.g. `hrm-vanilla-s1: {learning_rate: 2e-4}`."""
    cost: Cost = Cost()
    execution: Execution = Execution()


def expand(section: TrainHRMSection, plan: Planned) -> Iterator[Draft]:
    """Plan one run for each rule and seed of each group; equal names are one run."""
    drafts: dict[str, Draft] = {}
    for purpose, group in section.groups.items():
        for (label, scaling), seed in product(_rules(section, group), group.seeds):
            draft = _draft(section, purpose, label, scaling, seed)
            drafts[draft.name] = _joined(drafts.get(draft.name), draft)
    for name in section.overrides:
        if name not in drafts:
            raise UserError(f"overrides: there is no run '{name}'{nearest(name, list(drafts))}")
    yield from drafts.values()


def run(job: Job) -> None:
    """Train the model, resuming where an interrupted attempt left off."""
    from deeploop.training.hrm_run import train_on_build

    train_on_build(
        params=job.params,
        data_folder=job.input("build_arc").folder,
        folder=job.folder,
        work=job.work,
        execution=job.execution,
        telemetry=job.telemetry,
        stop=job.stop,
        label=job.run,
    )


def _rules(section: TrainHRMSection, group: Group) -> list[tuple[str, HRMScaling]]:
    """Return label and scaling of each rule of a group."""
    kept = section.model.scaling.model_dump(exclude={"rule", "p", "h", "l"})
    chosen: list[tuple[str, dict[str, Any]]] = [(rule, {"rule": rule}) for rule in group.scaling]
    names: dict[float, str] = {p: rule for rule, p in EXPONENTS.items()}
    for p in group.p:
        named = p in names
        label = names[p] if named else f"p{p:g}"
        chosen.append((label, {"rule": label} if named else {"rule": "custom", "p": p}))
    rules = [(label, HRMScaling(**(kept | values))) for label, values in chosen]
    return [*rules, *group.custom.items()]


def _draft(
    section: TrainHRMSection, purpose: str, label: str, scaling: HRMScaling, seed: int
) -> Draft:
    name = f"hrm-{label}-s{seed}"
    model = section.model.model_copy(update={"scaling": scaling})
    override = section.overrides.get(name, Override())
    training = _training(section.training, override, seed)
    both = scaling.exponents("H"), scaling.exponents("L")
    exponents = {p for module in both for p in (module.alpha, module.beta)}
    rows_each(training.recipe.batch_rows, _processes(section))  # before it is in a queue
    cell = {
        "rule": label,
        "p": exponents.pop() if len(exponents) == 1 else None,
        "seed": seed,
    }
    return Draft(
        name=name,
        params={"model": resolved(model), "training": resolved(training)},
        inputs=(("build_arc", section.dataset),),
        resources=Resources.of_training(**dict(section.cost)),
        execution=resolved(section.execution)
        | {"processes": _processes(section), "nodes": section.cost.nodes},
        version=section.version + override.version - 1,
        groups=(purpose,),
        cell=cell,
    )


def _training(length: Length, override: Override, seed: int) -> HRMTraining:
    replaced = {
        name: value
        for name in HRMRecipe.model_fields
        if (value := getattr(override, name)) is not None
    }
    values = dict(length) | {"recipe": length.recipe.model_copy(update=replaced), "seed": seed}
    if override.steps:
        values |= {"steps": override.steps, "epochs": None}
    return HRMTraining(**values)


def _processes(section: TrainHRMSection) -> int:
    return section.cost.gpus or section.execution.processes


def _joined(known: Draft | None, draft: Draft) -> Draft:
    if known is None:
        return draft
    if known.params != draft.params:
        groups = ", ".join((*known.groups, *draft.groups))
        raise UserError(
            f"train_hrm: groups: run '{draft.name}' has other settings in each of {groups}; "
            "one name must mean one run"
        )
    merged: dict[str, Any] = {**vars(known), "groups": (*known.groups, *draft.groups)}
    return Draft(**merged)


STAGE = Stage(
    name="train_hrm",
    about="Hierarchical Reasoning Models on ARC",
    section=TrainHRMSection,
    expand=expand,
    pinned=True,
    libraries=("torch", "numpy", "safetensors"),
)
