"""The harness's own adapter over the Hugging Face export of a model: what we compare to."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lm_eval.models.huggingface import HFLM

from deeploop.nn.hugging_face import export, register


def hflm(folder: Path, batch_size: int = 8) -> HFLM:
    """Return HFLM on the export of a model folder, its tokenizer included, in fp32."""
    register()
    with tempfile.TemporaryDirectory() as exported:
        export(folder, Path(exported))
        return HFLM(exported, dtype="float32", device="cpu", batch_size=batch_size)
