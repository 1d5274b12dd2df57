"""The errors that end a command, the exit codes they stand for, and a hint for their messages."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

EXIT_FAILURE = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 75  # EX_TEMPFAIL: run the same command again to resume


class UserError(Exception):
    """A user's mistake; the message is one line: what is wrong, where, what to do. Exit code 2."""


class BuildError(Exception):
    """A failure that is nobody's mistake: missing bytes, a held lock, a full disk. Exit code 1."""


class Interrupted(Exception):
    """Work was stopped in order and saved; the same command resumes it. Exit code 75."""


def nearest(word: str, known: Sequence[str]) -> str:
    """Return a hint: the nearest known word, or all of them when they are few."""
    close = difflib.get_close_matches(str(word), [str(k) for k in known], n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; there is {', '.join(map(str, known))}" if 0 < len(known) <= 8 else ""
