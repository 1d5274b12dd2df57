"""`python -m deeploop` is `deeploop`; a missing package is one clear line."""

import sys


def _main() -> int:
    try:
        from deeploop.cli import main
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("deeploop", "stages"):
            raise
        print(
            f"deeploop: package {error.name} is missing: activate the environment"
            " (`. .venv/bin/activate`), or `pip install -r requirements.txt`",
            file=sys.stderr,
        )
        return 2
    return main()


sys.exit(_main())
