"""The `deeploop` command: one module a sub-command in `deeploop/commands/`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import signal
import sys

import deeploop.commands
from deeploop import __version__
from deeploop.errors import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_USER_ERROR,
    BuildError,
    Interrupted,
    UserError,
)

ABOUT = """\
DeepLoop: depth scaling for looped Transformers, as a program that rebuilds its own tables.

Experiments are declared in params.yaml; `snakemake -c all all` or `dvc repro` builds them.
Exit codes: 0 done, 1 failure, 2 a mistake in the command or in params.yaml, 75 interrupted and
resumable by the same command.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every sub-command."""
    parser = argparse.ArgumentParser(
        prog="deeploop", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"deeploop {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for info in pkgutil.iter_modules(deeploop.commands.__path__):
        module = importlib.import_module(f"deeploop.commands.{info.name}")
        sub = commands.add_parser(
            info.name,
            help=module.HELP,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(sub)
        sub.set_defaults(main=module.main)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code; a mistake is one line on standard error."""
    try:
        args = build_parser().parse_args(arguments)
        code: int = args.main(args)
    except UserError as error:
        return _say(error, EXIT_USER_ERROR)
    except BuildError as error:
        return _say(error, EXIT_FAILURE)
    except Interrupted as error:
        return _say(error, EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        return _say("interrupted", 128 + signal.SIGINT)
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_FAILURE
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("deeploop", "stages"):
            raise
        return _say(
            f"package {error.name} is missing: activate the environment, or"
            " `pip install -r requirements.txt`",
            EXIT_USER_ERROR,
        )
    except PermissionError as error:
        return _say(f"cannot write {error.filename}: {error.strerror}", EXIT_FAILURE)
    except OSError as error:
        said = f"{error.filename or ''}: {error.strerror or error}"
        return _say(said.lstrip(": "), EXIT_FAILURE)
    return code


def _say(message: object, code: int) -> int:
    print(f"deeploop: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
