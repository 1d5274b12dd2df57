"""How the kernels are compiled: once per machine, whatever folder the program runs from.

Numba's own cache is keyed by the path of the source file and fresh by that one file's content. Jobs
run from frozen copies of the program, whose paths differ, and kernels call helpers of other files:
so this cache is keyed by the content of the whole `kernels` folder instead, and lives in the user's
cache folder (`NUMBA_CACHE_DIR`, else `$XDG_CACHE_HOME`, else `~/.cache`), which works when the
package folder is read-only. Where none of these can be written, every process compiles anew.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import _CacheLocator

settings: Any = numba.config


def cache_root() -> Path:
    """Return the folder that holds compiled kernels of every version of the program."""
    if settings.CACHE_DIR:
        return Path(settings.CACHE_DIR) / "deeploop"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deeploop" / "numba"


@functools.cache
def kernels_digest(folder: Path) -> str:
    """Return the sha256 of all sources in `folder`: what decides the compiled code."""
    sources = sorted(folder.glob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()


class KernelCache(_CacheLocator):
    """Where Numba keeps the machine code of one kernel."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file  # Numba names it in warnings
        self._digest = kernels_digest(Path(file).parent)
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        """Return the folder of this version of the kernels."""
        return str(cache_root() / self._digest[:16])

    def get_source_stamp(self) -> str:
        """Return what must be equal for cached code to be used."""
        return self._digest

    def get_disambiguator(self) -> str:
        """Return what tells two functions of one name apart."""
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> KernelCache:
        """Make the locator of one function (called by Numba)."""
        return cls(function, file)


@functools.cache
def cache_is_writable() -> bool:
    """Return whether compiled code can be kept for the next process."""
    try:
        cache_root().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_root()):
            return True
    except (OSError, RuntimeError):  # no such folder can be written, or there is no home
        return False


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on first call, without the interpreter lock, and keep the machine code."""
    dispatcher = numba.njit(nogil=True, boundscheck=False)(function)
    if not cache_is_writable():
        return dispatcher
    ours = f"{KernelCache.__module__}.{KernelCache.__qualname__}"
    before, settings.CACHE_LOCATOR_CLASSES = settings.CACHE_LOCATOR_CLASSES, ours
    try:
        dispatcher.enable_caching()
    finally:
        settings.CACHE_LOCATOR_CLASSES = before
    return dispatcher
