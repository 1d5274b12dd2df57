"""The errors that end a command, and the exit codes they stand for."""

EXIT_FAILURE = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 75  # EX_TEMPFAIL: run the same command again to resume


class UserError(Exception):
    """A user's mistake; the message is one line: what is wrong, where, what to do. Exit code 2."""


class BuildError(Exception):
    """A failure that is nobody's mistake: missing bytes, a held lock, a full disk. Exit code 1."""


class Interrupted(Exception):
    """Work was stopped in order and saved; the same command resumes it. Exit code 75."""
