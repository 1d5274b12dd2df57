"""The splits of a built ARC data set, checked before anything trains on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from deeploop.arc.build import DIGESTS_FILE
from deeploop.arc.files import BLOCK_ROWS, verify_block
from deeploop.arc.rows import ArcRows
from deeploop.draws import draw_seed
from deeploop.training.puzzle_order import PuzzleRows


def verified_splits(folder: Path, seed: int) -> Mapping[str, PuzzleRows]:
    """Open the splits `train` and `test` of a build, and render one training block again.

    Which block it is hangs on the seed: so this machine's rows are the build's before any
    training on them.

    Raises:
        UserError: when the folder holds no build.
        BuildError: when the block's digest is not that of the build.
    """
    train, test = ArcRows(folder, "train"), ArcRows(folder, "test")
    digests = json.loads((folder / DIGESTS_FILE).read_text(encoding="utf-8"))
    blocks = -(-train.count // BLOCK_ROWS)
    verify_block(train, digests["blocks"], draw_seed(seed, "verified block") % blocks)
    return {"train": train, "test": test}
