"""Generate dvc.yaml for a suite from params.yaml and the stages' declarations.

The committed file is the default suite's; `deeploop dvc --suite paper` makes the paper's. When
DVC was killed while it wrote dvc.lock ("'./dvc.lock' validation failed"), this mends it: DVC's
records are not needed, the next `dvc repro` finds every result.
"""

from __future__ import annotations

import argparse

from deeploop.project import find_root

HELP = "generate dvc.yaml for a suite"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--suite", help="suite in params.yaml; its default when absent")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when dvc.yaml is not current"
    )


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    from deeploop.dvc import drop_broken_lock, dvc_yaml
    from deeploop.errors import BuildError
    from deeploop.fileio import write_if_changed
    from deeploop.frozen import write_specs
    from deeploop.locks import hold_build_lock
    from deeploop.plan import load_plan

    root = find_root()
    plan = load_plan(root, args.suite)
    path, text = root / "dvc.yaml", dvc_yaml(plan)
    if args.check:
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise BuildError("dvc.yaml is not what params.yaml says: run `deeploop dvc`")
        return 0
    lock = hold_build_lock(root, "deeploop dvc", wait=True)
    if drop_broken_lock(root / "dvc.lock"):
        print("dvc.lock was cut short; removed, the next `dvc repro` writes it anew")
    changed = write_if_changed(path, text)
    write_specs(root, plan)  # so that `dvc status` can tell what a build would do
    assert lock is not None  # held until this process ends
    print(f"dvc.yaml: suite {plan.suite}, {len(plan)} runs{'' if changed else ' (unchanged)'}")
    return 0
