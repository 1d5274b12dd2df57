"""Before anything starts: what will run, why, and what it costs; dear builds need a word."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection

from deeploop.errors import UserError
from deeploop.explain import reasons
from deeploop.plan import Run
from deeploop.resolve import Resolver

CONFIRM = "DEEPLOOP_CONFIRM_GPU_HOURS"
SHOWN = 12
"""Runs listed one by one; the rest are counted."""


def announce(resolver: Resolver, wanted: Collection[Run]) -> float:
    """Print what of `wanted` will run and why; return the GPU-hours it may cost.

    Runs that hang on others are counted as if they had to run: an upper bound.
    """
    certain = [run for run in resolver.computing() if run in wanted]
    maybe = [run for run in resolver.undecided() if run in wanted]
    if not certain:
        return 0.0
    hours = sum(run.resources.gpu_hours for run in (*certain, *maybe))
    cost = f", at most {hours:,.0f} GPU-hours" if hours else ""
    behind = f", and up to {len(maybe)} that hang on them" if maybe else ""
    _say(f"{len(certain)} run(s) to compute{behind}{cost}:")
    for run in certain[:SHOWN]:
        why = reasons(resolver, run)
        more = f" (and {len(why) - 2} more)" if len(why) > 2 else ""
        _say(f"  {run.id}: {'; '.join(why[:2])}{more}")
    if len(certain) > SHOWN:
        _say(f"  ... and {len(certain) - SHOWN} more (`deeploop status` lists all)")
    return hours


def require_confirmation(resolver: Resolver, hours: float) -> None:
    """Stop unless a cost above the plan's limit has been confirmed.

    Raises:
        UserError: when it has not.
    """
    limit = resolver.plan.document.confirm_above_gpu_hours
    if hours <= limit or hours <= _confirmed():
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"deeploop: spend up to {hours:,.0f} GPU-hours? [y/N] ", end="", file=sys.stderr)
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UserError(
        f"nothing was started: this may spend {hours:,.0f} GPU-hours, above the"
        f" confirm_above_gpu_hours of {limit:g} in params.yaml; to confirm, set"
        f" {CONFIRM}={hours:.0f} in the environment"
    )


def _confirmed() -> float:
    value = os.environ.get(CONFIRM, "0")
    try:
        return float(value)
    except ValueError:
        raise UserError(f"{CONFIRM}={value!r} is not a number of GPU-hours") from None


def _say(text: str) -> None:
    print(f"deeploop: {text}", file=sys.stderr)
