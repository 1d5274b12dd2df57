"""The plain way to token files, as nanoGPT's prepare scripts do it: `datasets.map`, then a memmap.

    python -m bench.datasets_map OUT WORKERS FILE...

End-of-text stands before each document, as ours has it, so that both write the same bytes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tiktoken
from datasets import load_dataset
from tqdm import tqdm

from deeploop.text.gpt2 import Gpt2Tokenizer

BATCHES = 1024


def encoding() -> tiktoken.Encoding:
    """Return GPT-2's encoding without a download."""
    return Gpt2Tokenizer()._encoding


def main(out: Path, workers: int, files: list[str]) -> None:
    """Tokenize all documents into one file of uint16."""
    enc = encoding()

    def process(example: dict[str, Any]) -> dict[str, Any]:
        ids = [enc.eot_token, *enc.encode_ordinary(example["text"])]
        return {"ids": ids, "len": len(ids)}

    dataset = load_dataset("parquet", data_files=files, split="train")
    tokenized = dataset.map(
        process, remove_columns=dataset.column_names, desc="tokenizing", num_proc=workers
    )
    total = np.sum(tokenized["len"], dtype=np.uint64)
    stream = np.memmap(out, dtype=np.uint16, mode="w+", shape=(int(total),))
    index = 0
    for batch_index in tqdm(range(BATCHES)):
        batch = tokenized.shard(BATCHES, batch_index, contiguous=True).with_format("numpy")
        ids = np.concatenate(batch["ids"][:]) if len(batch) else np.empty(0, np.uint16)
        stream[index : index + len(ids)] = ids
        index += len(ids)
    stream.flush()


if __name__ == "__main__":
    assert "HF_HOME" in os.environ, "its cache must be empty: it remembers what it has done"
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
