"""params.yaml -> the runs of a suite, validated, named, and in topological order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError, field_validator

from deeploop.code import CACHE, CodeDigests
from deeploop.document import line_of, read_document
from deeploop.errors import UserError, nearest
from deeploop.fileio import DigestCache, dump_json, sha256_file, sha256_text
from deeploop.nn.config import Backbone
from deeploop.project import PLAN_FILE, code_root, load_registry, stages_home
from deeploop.stage import Draft, Resources, Section, Stage
from deeploop.training.config import Recipe

S = TypeVar("S", bound=Section)


class Document(Section):
    """The top of params.yaml."""

    suite: str
    """The suite that commands build when none is named, and that dvc.yaml is generated for."""
    confirm_above_gpu_hours: float = Field(default=24.0, ge=0)
    """A build that would spend more starts only when it is confirmed."""
    backbones: dict[str, Backbone] = {}
    recipes: dict[str, Recipe] = {}
    suites: dict[str, dict[str, Any]] = Field(min_length=1)

    @field_validator("suites", mode="before")
    @classmethod
    def _named_suites_may_be_empty(cls, suites: Any) -> Any:
        if not isinstance(suites, dict):
            return suites
        return {name: {} if value is None else value for name, value in suites.items()}


@dataclass(frozen=True, eq=False)
class Run:
    """One run of one stage: all that decides its result, and how it is carried out."""

    suite: str
    stage: str
    name: str
    spec: Mapping[str, Any]
    """Everything that bears on the result beside the upstream outputs."""
    inputs: tuple[Run, ...]
    draft: Draft
    declaration: Stage
    aliases: tuple[str, ...] = ()
    """Other names of the same specification: one run, computed once."""

    @property
    def id(self) -> str:
        """`stage/run`."""
        return f"{self.stage}/{self.name}"

    @property
    def resources(self) -> Resources:
        """What the run asks of a cluster."""
        return self.draft.resources

    @property
    def folder(self) -> Path:
        """Where engines see the run, relative to the project."""
        return Path("results", self.suite, self.stage, self.name)

    @property
    def manifest(self) -> Path:
        """The one file that engines depend on."""
        return self.folder / "manifest.json"

    @property
    def spec_path(self) -> Path:
        """The specification; those of a suite share a folder, DVC's one output of planning."""
        return Path("results", self.suite, "specs", f"{self.stage}-{self.name}.json")

    @cached_property
    def spec_text(self) -> str:
        """The specification as it is written and hashed."""
        return dump_json(self.spec)


class Plan:
    """The runs of one suite in topological order."""

    def __init__(self, suite: str, document: Document, stages: Sequence[Stage], text: str) -> None:
        self.suite = suite
        self.document = document
        self.stages = tuple(stages)
        self.text = text
        self.code_tree = ""
        """Digest of the code that the specifications were made with."""
        self._runs: dict[tuple[str, str], Run] = {}
        self._names: dict[tuple[str, str], Run] = {}

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs.values())

    def __len__(self) -> int:
        return len(self._runs)

    def of(self, stage: str) -> list[Run]:
        """Return the runs of one stage, in plan order."""
        return [run for run in self if run.stage == stage]

    def get(self, stage: str, name: str) -> Run:
        """Return a run by its name or by another name of the same specification.

        Raises:
            UserError: when there is no such run; names the nearest.
        """
        run = self._names.get((stage, name))
        if run is None:
            known = [other for at, other in self._names if at == stage]
            if not known:
                stages = list(dict.fromkeys(at for at, _ in self._names))
                raise UserError(
                    f"suite {self.suite} has no stage '{stage}'{nearest(stage, stages)}"
                )
            raise UserError(f"suite {self.suite} has no run {stage}/{name}{nearest(name, known)}")
        return run

    def chosen(self, stage: str | None, name: str | None) -> list[Run]:
        """Return one run, the runs of one stage, or all.

        Raises:
            UserError: when there is no such run or stage.
        """
        if name is not None and stage is not None:
            return [self.get(stage, name)]
        if stage is None:
            return list(self)
        return self.of(stage) or [self.get(stage, "")]

    def add(self, run: Run) -> None:
        """Append a run; its inputs must be in the plan."""
        self._runs[run.stage, run.name] = run
        for name in (run.name, *run.aliases):
            self._names[run.stage, name] = run


def load_plan(root: Path, suite: str | None = None, code: Path | None = None) -> Plan:
    """Read and validate params.yaml and plan one suite.

    Args:
        root: the project folder.
        suite: the suite's name; the document's default when absent.
        code: folder whose `deeploop/` and `stages/` the specifications take digests of; the
            running code when absent.

    Raises:
        UserError: naming file, line, key and remedy.
    """
    path = root / PLAN_FILE
    values, text = read_document(path)
    registry = load_registry(root)
    document = _validate(Document, values, (), text)
    for name in document.suites:
        _check_suite(document, name, registry, text)
    chosen = suite or document.suite
    if chosen not in document.suites:
        where = "suite" if suite is None else "--suite"
        raise UserError(
            f"{PLAN_FILE}: {where}: there is no suite '{chosen}'"
            + nearest(chosen, list(document.suites))
        )
    return _Planner(root, document, registry, text, chosen, code).plan()


def _check_suite(
    document: Document, suite: str, registry: Sequence[Stage], text: str
) -> dict[str, Section]:
    """Validate every section of a suite, so that a mistake shows whichever suite is built."""
    known = {stage.name: stage for stage in registry}
    sections: dict[str, Section] = {}
    for name, value in document.suites[suite].items():
        keys = ("suites", suite, name)
        if name not in known:
            raise UserError(
                f"{_place(text, keys)}: there is no stage '{name}'{nearest(name, list(known))}"
            )
        sections[name] = _validate(known[name].section, {} if value is None else value, keys, text)
    return sections


class _Planner:
    """Turns sections into runs, stage by stage; what `expand` is handed as the plan so far."""

    def __init__(
        self,
        root: Path,
        document: Document,
        registry: Sequence[Stage],
        text: str,
        suite: str,
        code: Path | None,
    ) -> None:
        self.root = root
        self.suite = suite
        self._document = document
        self._text = text
        self._sections = _check_suite(document, suite, registry, text)
        self._plan = Plan(suite, document, registry, text)
        self._home = code or stages_home(root)
        self._code = CodeDigests(
            {"deeploop": code or code_root(), "stages": self._home}, root / CACHE
        )
        self._digests = DigestCache(root / "results" / ".digests.json")

    def plan(self) -> Plan:
        for stage in self._plan.stages:
            if stage.name in self._sections:
                self._expand(stage, self._sections[stage.name])
        self._digests.save()
        self._plan.code_tree = self._code.tree
        return self._plan

    def of(self, stage: str, group: str | None = None) -> list[Draft]:
        return [
            run.draft for run in self._plan.of(stage) if group is None or group in run.draft.groups
        ]

    def shared(self, kind: str, name: str) -> Mapping[str, Any]:
        entries: Mapping[str, BaseModel] = getattr(self._document, kind)
        if name not in entries:
            raise UserError(f"there is no '{name}' in {kind}{nearest(name, list(entries))}")
        return entries[name].model_dump()

    def _expand(self, stage: Stage, section: Section) -> None:
        keys = ("suites", self._plan.suite, stage.name)
        try:
            self._add(stage, list(stage.expand(section, self)))
        except ValidationError as error:
            raise _as_user_error(error, stage.section, keys, self._text) from None
        except UserError as error:
            raise UserError(f"{_place(self._text, keys)}: {error}") from None

    def _add(self, stage: Stage, drafts: Sequence[Draft]) -> None:
        seen: dict[str, tuple[Draft, Mapping[str, Any]]] = {}
        for draft in drafts:
            if draft.name in seen:
                raise UserError(f"run '{draft.name}' is listed twice; remove one")
            seen[draft.name] = (draft, self._specify(stage, draft))
        for draft, spec, aliases in _merge(seen):
            inputs = tuple(self._plan.get(*up) for up in draft.inputs)
            self._plan.add(
                Run(self._plan.suite, stage.name, draft.name, spec, inputs, draft, stage, aliases)
            )

    def _specify(self, stage: Stage, draft: Draft) -> Mapping[str, Any]:
        spec: dict[str, Any] = {
            "stage": stage.name,
            "version": [stage.version, draft.version],
            "params": draft.params,
            "files": [self._sha256(name) for name in draft.files],
            # A list, because an engine does not see that a dependency is gone.
            "inputs": [up for up, _ in draft.inputs],
        }
        if not stage.pinned:
            spec["code"] = self._code.digest(f"stages.{stage.name}")
            spec["data"] = self._data(stage)
            spec["libraries"] = {name: public_version(name) for name in stage.libraries}
        return spec

    def _data(self, stage: Stage) -> dict[str, str]:
        home = self._home
        files = sorted(path for glob in stage.data for path in home.glob(glob) if path.is_file())
        return {path.relative_to(home).as_posix(): sha256_file(path) for path in files}

    def _sha256(self, name: str) -> str:
        try:
            return self._digests.sha256(self.root / name)
        except OSError as error:
            raise UserError(f"{name}: {error.strerror}") from None


def _merge(
    seen: Mapping[str, tuple[Draft, Mapping[str, Any]]],
) -> Iterator[tuple[Draft, Mapping[str, Any], tuple[str, ...]]]:
    """Two names with one specification (and one set of inputs) are one run under two names."""
    same: dict[str, list[Draft]] = {}
    specs: dict[str, Mapping[str, Any]] = {}
    for draft, spec in seen.values():
        key = sha256_text(dump_json([spec, draft.inputs]))
        same.setdefault(key, []).append(draft)
        specs[key] = spec
    for key, drafts in same.items():
        first, *others = drafts
        groups = tuple(dict.fromkeys(group for draft in drafts for group in draft.groups))
        joined = Draft(**{**vars(first), "groups": groups})
        yield joined, specs[key], tuple(other.name for other in others)


def public_version(distribution: str) -> str:
    """Return an installed distribution's version without its local part (`+cpu`).

    Raises:
        UserError: when it is not installed.
    """
    try:
        return metadata.version(distribution).partition("+")[0]
    except metadata.PackageNotFoundError:
        raise UserError(
            f"package {distribution} is missing: pip install -r requirements.txt"
        ) from None


def _validate(model: type[S], value: Any, keys: tuple[str | int, ...], text: str) -> S:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _as_user_error(error, model, keys, text) from None


def _as_user_error(
    error: ValidationError, model: type[Section], keys: tuple[str | int, ...], text: str
) -> UserError:
    first, *others = error.errors()
    location = (*keys, *(part for part in first["loc"] if not str(part).startswith("function-")))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = f"unknown key{nearest(str(location[-1]), _fields_at(model, first['loc'][:-1]))}"
    elif first["type"] != "value_error" and not isinstance(first["input"], dict | list):
        message += f" (it is {first['input']!r})"
    more = f" ({len(others)} more)" if others else ""
    return UserError(f"{_place(text, location)}: {message}{more}")


def _fields_at(model: type[Section], location: Sequence[str | int]) -> list[str]:
    """Return the keys that are known where an unknown one stands."""
    current: Any = model
    for part in location:
        fields = getattr(current, "model_fields", {})
        annotation = fields[part].annotation if part in fields else None
        models = list(_models_in(annotation if annotation is not None else current))
        current = models[0] if models else current
    return list(getattr(current, "model_fields", {}))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)


def _place(text: str, keys: Sequence[str | int]) -> str:
    line = line_of(text, keys)
    return f"{PLAN_FILE}{f':{line}' if line else ''}: {'.'.join(map(str, keys))}"
