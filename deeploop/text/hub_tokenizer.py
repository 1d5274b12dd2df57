"""Our tokenizers as Hugging Face ones, for models that are exported. Needs transformers."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from deeploop.text.gpt2_files import find_gpt2_file


def hub_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a name that `deeploop.text.config.Corpus` allows.

    Raises:
        UserError: GPT-2's files cannot be had.
    """
    return _bytes() if name == "bytes" else _gpt2()


def _gpt2() -> PreTrainedTokenizerFast:
    vocabulary, merges = (str(find_gpt2_file(name, None)) for name in ("encoder.json", "vocab.bpe"))
    return _fast(models.BPE.from_file(vocabulary, merges), "<|endoftext|>")


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
