"""Training of one looped language model: a cell of Table 1, or a marker of the p-sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model, model_validator

from deeploop.errors import UserError, nearest
from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.stage import (
    Draft,
    Job,
    Planned,
    Resources,
    Section,
    Stage,
    StageSection,
    resolved,
)
from deeploop.training.config import Execution, Recipe, Training, Validation, rows_each

EXPONENTS = {"base": 0.0, "deepnorm": 0.25, "deeploop": 0.5}
"""Named rules by their p (the paper's section 3)."""

CHECKPOINT_FILES = ("model.safetensors", "model.json")
"""What a folder given as `checkpoint` must hold."""

Rule = Literal["base", "deepnorm", "deeploop"]
Exponent = Annotated[float, Field(ge=0, le=2)]


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class Cost(Section):
    """What a backbone's trainings ask of a cluster; execution only."""

    gpus: int = Field(default=0, ge=0)
    nodes: int = Field(default=1, ge=1)
    gpu_hours: dict[int, float] = {}
    """Loops -> GPU-hours of a whole run."""
    micro_batch: dict[int, int] = {}
    """Loops -> sequences a GPU takes at once, unless `execution` says so (docs/training.md)."""
    source: Literal["paper", "ours"] = "ours"
    """Where the estimate comes from."""
    memory_gb: float = Field(default=64.0, gt=0)
    """Host memory a node."""


class Settings(Section):
    """What a training is beside its cell; a group may replace any of the section's values."""

    corpus: str | None = None
    """A run of `tokenize`."""
    recipe: str | None = None
    """A name in `recipes`."""
    steps: int | None = Field(default=None, gt=0)
    validation: Validation | None = None
    report_step: int | None = Field(default=None, gt=0)
    """Step whose validation loss is reported; the last when absent."""
    snapshot_steps: tuple[int, ...] | None = None
    """Steps whose weights are kept, for the alignment stage."""
    gpu_hours: float | None = Field(default=None, gt=0)
    """Estimate for each run of the group, where the backbone's cost table does not hold."""
    gpus: int | None = Field(default=None, ge=0)
    nodes: int | None = Field(default=None, ge=1)


class Group(Settings):
    """Runs for one purpose: every combination of the lists is a run."""

    backbone: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
    """Names in `backbones`."""
    scaling: Annotated[tuple[Rule, ...], BeforeValidator(_listed)] = ()
    """Named rules: base (p = 0), deepnorm (1/4), deeploop (1/2)."""
    p: Annotated[tuple[Exponent, ...], BeforeValidator(_listed)] = ()
    """Exponents of both alpha and beta."""
    alpha_p: Annotated[tuple[Exponent, ...], BeforeValidator(_listed)] = ()
    """Exponents of alpha alone, each combined with every `beta_p`."""
    beta_p: Annotated[tuple[Exponent, ...], BeforeValidator(_listed)] = ()
    loops: Annotated[
        tuple[Annotated[int, Field(gt=0)], ...], BeforeValidator(_listed), Field(min_length=1)
    ]
    seeds: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_listed), Field(min_length=1)
    ]

    @model_validator(mode="after")
    def _has_a_rule(self) -> Group:
        if not (self.scaling or self.p or (self.alpha_p and self.beta_p)):
            raise ValueError("give `scaling`, `p`, or both `alpha_p` and `beta_p`")
        return self


_OverrideFields: dict[str, Any] = {
    name: (field.annotation | None, Field(default=None, description="replaces the recipe's"))  # type: ignore[operator]
    for name, field in Recipe.model_fields.items()
}
RecipeOverride = create_model("RecipeOverride", __base__=Section, **_OverrideFields)


class Override(RecipeOverride):
    """What one run does differently: any value of the recipe, and the fields below."""

    steps: int | None = Field(default=None, gt=0)
    version: int = Field(default=1, ge=1)
    """Raise it to train the run anew."""
    init_from: str | None = None
    """Run of this stage whose final weights this one starts from."""
    checkpoint: str | None = None
    """Folder with `model.safetensors` and `model.json` of a model trained elsewhere, taken in
    place of a training and marked external wherever it shows."""

    @model_validator(mode="after")
    def _one_origin(self) -> Override:
        if self.init_from and self.checkpoint:
            raise ValueError("give `init_from` or `checkpoint`, not both")
        return self


class TrainLMSection(Settings, StageSection):
    """Which language models a suite trains."""

    groups: dict[str, Group] = Field(min_length=1)
    """Purpose (`table1`, `p_sweep`) -> runs."""
    overrides: dict[str, Override] = {}
    """Run -> what it does differently, e.g. `small-base-r3-s0: {learning_rate: 2e-3}`."""
    costs: dict[str, Cost] = {}
    """Backbone -> cost."""
    execution: Execution = Execution()


def expand(section: TrainLMSection, plan: Planned) -> Iterator[Draft]:
    """Plan one run for each combination of each group; equal names are one run."""
    drafts: dict[str, Draft] = {}
    for purpose, group in section.groups.items():
        for backbone, rule, loops, seed in product(
            group.backbone, _rules(group), group.loops, group.seeds
        ):
            draft = _draft(section, group, purpose, plan, (backbone, *rule, loops, seed))
            drafts[draft.name] = _joined(drafts.get(draft.name), draft, purpose)
    for name in section.overrides:
        if name not in drafts:
            raise UserError(f"overrides: there is no run '{name}'{nearest(name, list(drafts))}")
    yield from _origins_first(drafts)


def run(job: Job) -> None:
    """Train the model, resuming where an interrupted attempt left off."""
    tokens = job.input("tokenize").folder
    if job.params.get("external"):
        from deeploop.training.external import adopt_checkpoint

        adopt_checkpoint(job.params, job.files, tokens, job.folder, job.execution)
        return
    from deeploop.training.language_model import train_language_model

    initial = job.input("train_lm").folder if job.params.get("init_from") else None
    train_language_model(
        params=job.params,
        tokens_dir=tokens,
        initial=initial,
        folder=job.folder,
        work=job.work,
        execution=job.execution,
        telemetry=job.telemetry,
        stop=job.stop,
        label=f"{job.stage}/{job.run}",
    )


def _rules(group: Group) -> list[tuple[str, float, float]]:
    """Return (label, exponent of alpha, exponent of beta) of each rule of a group."""
    named = [(rule, EXPONENTS[rule], EXPONENTS[rule]) for rule in group.scaling]
    swept = [(f"p{p:g}", p, p) for p in group.p]
    split = [(f"a{a:g}-b{b:g}", a, b) for a, b in product(group.alpha_p, group.beta_p)]
    return [*named, *swept, *split]


def _draft(
    section: TrainLMSection,
    group: Group,
    purpose: str,
    plan: Planned,
    place: tuple[str, str, float, float, int, int],
) -> Draft:
    backbone, label, alpha_p, beta_p, loops, seed = place
    name = f"{backbone}-{label}-r{loops}-s{seed}"
    override = section.overrides.get(name, Override())
    model = GPTConfig(
        backbone=Backbone(**plan.shared("backbones", backbone)),
        loops=loops,
        scaling=Scaling(alpha_exponent=alpha_p, beta_exponent=beta_p),
    )
    training = _training(section, group, override, plan, seed)
    cost = _cost(section, group, backbone)
    params: dict[str, Any] = {"model": resolved(model), "training": resolved(training)}
    inputs = [("tokenize", _setting(section, group, "corpus", purpose))]
    cell = _cell(backbone, alpha_p, beta_p, loops, seed)
    files: tuple[str, ...] = ()
    if override.init_from:
        params["init_from"] = True  # which weights is the input's digest
        inputs.append(("train_lm", override.init_from))
    if override.checkpoint:
        params["external"] = cell["external"] = True
        files = tuple(f"{override.checkpoint}/{file}" for file in CHECKPOINT_FILES)
    return Draft(
        name=name,
        params=params,
        inputs=tuple(inputs),
        files=files,
        resources=_resources(group, cost, loops),
        execution=_execution(section, cost, loops, training),
        version=section.version + override.version - 1,
        groups=(purpose,),
        cell=cell,
    )


def _training(
    section: TrainLMSection, group: Group, override: Override, plan: Planned, seed: int
) -> Training:
    recipe = dict(plan.shared("recipes", _setting(section, group, "recipe", "train_lm")))
    replaced = {
        name: value
        for name in Recipe.model_fields
        if (value := getattr(override, name)) is not None
    }
    return Training(
        recipe=Recipe(**(recipe | replaced)),
        steps=override.steps or _setting(section, group, "steps", "train_lm"),
        seed=seed,
        validation=_setting(section, group, "validation", "train_lm"),
        report_step=_setting(section, group, "report_step"),
        snapshot_steps=_setting(section, group, "snapshot_steps") or (),
    )


def _setting(section: TrainLMSection, group: Group, name: str, needed_by: str = "") -> Any:
    """Return the group's value, else the section's."""
    value = getattr(group, name)
    value = getattr(section, name) if value is None else value
    if value is None and needed_by:
        raise UserError(f"`{name}` is not given, neither here nor in group {needed_by}")
    return value


def _cell(backbone: str, alpha_p: float, beta_p: float, loops: int, seed: int) -> dict[str, Any]:
    names = {p: rule for rule, p in EXPONENTS.items()}
    same = alpha_p == beta_p
    label = names.get(alpha_p, f"p{alpha_p:g}") if same else f"a{alpha_p:g}-b{beta_p:g}"
    return {
        "backbone": backbone,
        "scaling": label,
        "p": alpha_p if same else None,
        "alpha_p": alpha_p,
        "beta_p": beta_p,
        "loops": loops,
        "seed": seed,
    }


def _cost(section: TrainLMSection, group: Group, backbone: str) -> Cost:
    """Return what a run of the group asks for: its backbone's cost, but for what it says itself."""
    cost = section.costs.get(backbone, Cost())
    own = {key: value for key in ("gpus", "nodes") if (value := getattr(group, key)) is not None}
    return cost.model_copy(update=own)


def _resources(group: Group, cost: Cost, loops: int) -> Resources:
    hours = group.gpu_hours or cost.gpu_hours.get(loops, 0.0)
    memory_gb = cost.memory_gb if cost.gpus else 4.0
    return Resources.of_training(cost.gpus, cost.nodes, hours, memory_gb, cost.source)


def _execution(
    section: TrainLMSection, cost: Cost, loops: int, training: Training
) -> Mapping[str, Any]:
    execution = resolved(section.execution)
    if cost.gpus:
        execution |= {"processes": cost.gpus, "nodes": cost.nodes}
    execution["micro_batch"] = execution["micro_batch"] or cost.micro_batch.get(loops)
    rows_each(training.recipe.batch_sequences, execution["processes"])  # before it is in a queue
    return execution


def _origins_first(drafts: Mapping[str, Draft]) -> Iterator[Draft]:
    """Yield runs so that one whose weights another starts from comes before it."""
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> Iterator[Draft]:
        if name in above:
            raise UserError(f"overrides: init_from goes in a circle: {' -> '.join((*above, name))}")
        if name in done:
            return
        for stage, origin in drafts[name].inputs:
            if stage == "train_lm":
                if origin not in drafts:
                    hint = nearest(origin, list(drafts))
                    raise UserError(f"overrides.{name}.init_from: no run '{origin}'{hint}")
                yield from visit(origin, (*above, name))
        done.add(name)
        yield drafts[name]

    for name in drafts:
        yield from visit(name, ())


def _joined(known: Draft | None, draft: Draft, purpose: str) -> Draft:
    if known is None:
        return draft
    if purpose in known.groups:
        raise UserError(f"groups.{purpose}: run '{draft.name}' is listed twice; remove one")
    if known.params != draft.params or known.inputs != draft.inputs:
        raise UserError(
            f"groups.{purpose}: run '{draft.name}' stands in {', '.join(known.groups)} with other"
            " settings; one name must mean one run"
        )
    return Draft(**{**vars(known), "groups": (*known.groups, purpose)})


STAGE = Stage(
    name="train_lm",
    about="looped language models",
    section=TrainLMSection,
    expand=expand,
    pinned=True,
    libraries=("torch", "numpy", "safetensors"),
)
