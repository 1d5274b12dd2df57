"""A digest of the code that a stage runs: what its `run` reaches in our packages, and no more.

Reached means named: from a definition, the names it uses lead to other top-level definitions, in
its module or through its imports. Comments, docstrings, positions and formatting do not count,
nor do bookkeeping modules, which carry results but do not make them. Code reached by `getattr` or
`importlib` is not seen, so stages do without.

The form hashed is our own and not `ast.dump`'s, which differs between Python versions.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from deeploop.fileio import dump_json, read_json, sha256_file, sha256_text, write_if_changed

LOCAL = ("deeploop", "stages")
CACHE = Path("results", ".code.json")
TREES_REMEMBERED = 20
BOOKKEEPING = frozenset(
    {
        *("deeploop.build", "deeploop.cli", "deeploop.code", "deeploop.collect"),
        *("deeploop.commands", "deeploop.remote", "deeploop.verify"),
        *("deeploop.document", "deeploop.dvc", "deeploop.errors", "deeploop.explain"),
        *("deeploop.frozen", "deeploop.guard", "deeploop.locks", "deeploop.plan"),
        *("deeploop.progress", "deeploop.project", "deeploop.resolve", "deeploop.runner"),
        *("deeploop.stage", "deeploop.status", "deeploop.store"),
    }
)


@dataclass
class _Module:
    name: str
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """Local name -> (module, name in it), or (module, None) for a module itself."""
    effects: list[ast.stmt] = field(default_factory=list)
    """Statements that act when the module is imported."""


class CodeDigests:
    """Digests of entry functions; each module is parsed once, each definition looked at once.

    Args:
        roots: package (`deeploop`, `stages`) -> folder that holds it.
        cache: file that remembers digests by the bytes of all code, so that planning the same
            code again parses nothing.
    """

    def __init__(self, roots: Mapping[str, Path], cache: Path | None = None) -> None:
        self._roots = roots
        self._cache = cache
        self._modules: dict[str, _Module | None] = {}
        self._facts: dict[tuple[str, str], tuple[str, tuple[tuple[str, str], ...]]] = {}
        self._remembered: dict[str, dict[str, str]] = (read_json(cache) or {}) if cache else {}

    @cached_property
    def tree(self) -> str:
        """SHA-256 over the names and bytes of every file of the packages."""
        listing = [
            [path.relative_to(root).as_posix(), sha256_file(path)]
            for package, root in sorted(self._roots.items())
            for path in sorted((root / package).rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        ]
        return sha256_text(dump_json(listing))

    def digest(self, module: str, function: str = "run") -> str:
        """Return the hex SHA-256 over all that `module.function` reaches, itself included."""
        known = self._remembered.setdefault(self.tree, {})
        name = f"{module}:{function}"
        if name not in known:
            known[name] = sha256_text(repr(sorted(self.reached(module, function).items())))
            self._save()
        return known[name]

    def _save(self) -> None:
        """Remember the last trees; a folder that cannot be written only costs the next parsing."""
        if self._cache is not None:
            kept = dict(list(self._remembered.items())[-TREES_REMEMBERED:])
            with suppress(OSError):
                write_if_changed(self._cache, json.dumps(kept, indent=1))

    def reached(self, module: str, function: str = "run") -> dict[str, str]:
        """Return `module:name` -> digest of each reached definition."""
        found: dict[str, str] = {}
        queue = [(module, function)]
        while queue:
            at = queue.pop()
            label = ":".join(at)
            if label not in found and self._load(at[0]) is not None:
                found[label], references = self._look_at(*at)
                queue += references
        return {label: digest for label, digest in found.items() if digest != _hash([])}

    def _look_at(self, module: str, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return a definition's digest, and what it refers to."""
        if (module, name) not in self._facts:
            loaded = self._load(module)
            assert loaded is not None
            nodes = loaded.effects if name == "" else loaded.definitions.get(name, [])
            references = [(part, "") for part in _packages(module)]
            for node in nodes:
                references += self._references(loaded, node)
            self._facts[module, name] = (_hash(nodes), tuple(dict.fromkeys(references)))
        return self._facts[module, name]

    def _references(self, module: _Module, node: ast.stmt) -> Iterator[tuple[str, str]]:
        imports = module.imports | self._imports_within(node)
        aliased = {
            inner.value.id: inner.value
            for inner in ast.walk(node)
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name)
        }
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                target = imports.get(inner.value.id)
                if target and target[1] is None:
                    yield from self._resolve(target[0], inner.attr)
            if isinstance(inner, ast.Name):
                if inner.id in module.definitions:
                    yield module.name, inner.id
                elif target := imports.get(inner.id):
                    yield from self._named(target, bare=aliased.get(inner.id) is None)

    def _named(self, target: tuple[str, str | None], bare: bool) -> Iterator[tuple[str, str]]:
        module, name = target
        if name is not None:
            yield from self._resolve(module, name)
        elif bare and (loaded := self._load(module)):  # the module itself is handed on: all of it
            yield from ((module, each) for each in ("", *loaded.definitions))

    def _resolve(self, module: str, name: str) -> Iterator[tuple[str, str]]:
        """Follow re-exports to where a name is defined."""
        loaded = self._load(module)
        if loaded is None:
            return
        if name in loaded.definitions:
            yield module, name
        elif name in loaded.imports:
            further, inner = loaded.imports[name]
            yield from self._resolve(further, inner) if inner else [(further, "")]
        elif (whole := self._load(f"{module}.{name}")) is not None:
            yield from ((f"{module}.{name}", each) for each in ("", *whole.definitions))

    def _load(self, name: str) -> _Module | None:
        if name not in self._modules:
            path = None if _is_outside(name) else self._file_of(name)
            self._modules[name] = self._parse(name, path) if path else None
        return self._modules[name]

    def _file_of(self, module: str) -> Path | None:
        package = module.partition(".")[0]
        if package not in self._roots:
            return None
        base = self._roots[package].joinpath(*module.split("."))
        candidates = (base.with_suffix(".py"), base / "__init__.py")
        return next((path for path in candidates if path.is_file()), None)

    def _parse(self, name: str, path: Path) -> _Module:
        module = _Module(name)
        for statement in ast.parse(path.read_bytes()).body:
            self._file(module, statement)
        return module

    def _file(self, module: _Module, statement: ast.stmt) -> None:
        """Put one top-level statement where it belongs."""
        if isinstance(statement, ast.Import | ast.ImportFrom):
            module.imports |= self._imports_within(statement)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            module.definitions.setdefault(statement.name, []).append(statement)
        elif targets := _assigned(statement):
            for target in targets:
                module.definitions.setdefault(target, []).append(statement)
        elif not (_is_text(statement) or _is_type_checking(statement)):
            module.effects.append(statement)

    def _imports_within(self, node: ast.stmt) -> dict[str, tuple[str, str | None]]:
        found: dict[str, tuple[str, str | None]] = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.ImportFrom) and inner.level == 0 and inner.module:
                for alias in inner.names:
                    submodule = f"{inner.module}.{alias.name}"
                    is_module = not _is_outside(inner.module) and self._file_of(submodule)
                    target = (submodule, None) if is_module else (inner.module, alias.name)
                    found[alias.asname or alias.name] = target
            elif isinstance(inner, ast.Import):
                for alias in inner.names:
                    if alias.asname:
                        found[alias.asname] = (alias.name, None)
        return found


def _hash(nodes: list[ast.stmt]) -> str:
    return sha256_text(repr([_canonical(node) for node in nodes]))


def _canonical(node: object) -> object:
    """Return a nested tuple that is equal for equal code on every Python version."""
    if isinstance(node, ast.AST):
        fields = (
            (name, _canonical(getattr(node, name, None)))
            for name in node._fields
            if name not in ("kind", "type_comment", "ctx")
        )
        return (type(node).__name__, *((n, v) for n, v in fields if v not in (None, ())))
    if isinstance(node, list):
        return tuple(_canonical(item) for item in node if not _is_text(item))
    return None if node is None else repr(node)


def _is_text(node: object) -> bool:
    """Docstrings, of fields too, are statements that only hold text."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _assigned(statement: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [name for target in targets for name in _names(target)]


def _names(target: ast.expr) -> list[str]:
    """Return the names a target binds; `a.b = ...` and `a[0] = ...` bind none, they act."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Tuple | ast.List):
        return [name for element in target.elts for name in _names(element)]
    return []


def _packages(module: str) -> list[str]:
    """Return what runs when a module is imported: `a`, `a.b` and `a.b.c`."""
    parts = module.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _is_outside(module: str) -> bool:
    first, second = (*module.split("."), "")[:2]
    return first not in LOCAL or f"{first}.{second}" in BOOKKEEPING
