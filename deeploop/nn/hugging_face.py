"""The looped GPT as a Hugging Face model.

`AutoModelForCausalLM` opens an exported folder with `trust_remote_code=True`, because the folder
names the classes of this module, or without it after `register()`. The weights keep their names;
the cache has a slot for every visit: `num_hidden_layers` is K * R. Needs transformers (5.24 or
newer: `cache` was named otherwise before), an optional extra.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_outputs import CausalLMOutputWithPast

from deeploop.nn.cache import Uncached
from deeploop.nn.config import GPTConfig
from deeploop.nn.folder import describe, open_model
from deeploop.nn.gpt import LoopedGPT
from deeploop.nn.layers import rotation
from deeploop.text.hub_tokenizer import hub_tokenizer


class HubConfig(PreTrainedConfig):
    """A `GPTConfig` under the key `gpt`, and what transformers wants to read beside it."""

    model_type = "deeploop"

    gpt: dict[str, Any] | None = None
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        if self.gpt is not None:
            config = GPTConfig.model_validate(self.gpt)
            shape = config.backbone
            self.vocab_size = shape.vocab_size
            self.hidden_size = shape.hidden_size
            self.num_attention_heads = shape.heads
            self.num_hidden_layers = shape.layers * config.loops
            self.max_position_embeddings = shape.context_length
            derived = ("vocab_size", "hidden_size", "num_attention_heads")
            for name in (*derived, "num_hidden_layers", "max_position_embeddings"):
                kwargs.pop(name, None)
        super().__post_init__(**kwargs)


class HubLoopedGPT(PreTrainedModel, GenerationMixin):
    """`LoopedGPT` with the interface of transformers; the head is tied to the embedding."""

    config_class = HubConfig
    base_model_prefix = "model"
    _tied_weights_keys = {"lm_head.weight": "model.embedding"}
    _supports_sdpa = True

    def __init__(self, config: HubConfig) -> None:
        super().__init__(config)
        gpt = GPTConfig.model_validate(config.gpt)
        self.model = LoopedGPT(gpt)
        self.lm_head = nn.Linear(gpt.backbone.hidden_size, gpt.backbone.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: Cache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **unused: Any,
    ) -> CausalLMOutputWithPast:
        """Return logits [batch, length, vocab_size], and the loss where there are labels.

        Args:
            input_ids: [batch, length], those after what `cache` holds.
            attention_mask: [batch, held + length], 0 for padding (on the left).
            cache: earlier keys and values.
            labels: [batch, length], the tokens themselves, -100 where no loss is wanted.
            use_cache: return a cache to go on with.
            logits_to_keep: only of so many last positions; 0 for all.
            unused: what other models take.
        """
        if cache is None and use_cache:
            cache = DynamicCache(config=self.config)
        start = 0 if cache is None else cache.get_seq_length()
        mask = None if attention_mask is None else attention_mask.bool()
        states = self.model.decode(input_ids, Uncached() if cache is None else cache, start, mask)
        logits = F.linear(states[:, -logits_to_keep:], self.lm_head.weight)
        loss = None
        if labels is not None:
            wide = logits[:, :-1].float().flatten(0, 1)
            loss = F.cross_entropy(wide, labels[:, 1:].flatten(), ignore_index=-100)
        return CausalLMOutputWithPast(loss=loss, logits=logits, cache=cache)

    def get_output_embeddings(self) -> nn.Module:
        """Return the tied head."""
        return self.lm_head

    def _init_weights(self, module: nn.Module) -> None:
        """Fill what no file holds: the rotary angles, made on `meta` while a folder is opened."""
        if isinstance(module, LoopedGPT):
            shape = module.config.backbone
            parts = rotation(shape.context_length, shape.head_size, shape.rope_base)
            with torch.no_grad():
                for buffer, values in zip((module.cos, module.sin), parts, strict=True):
                    buffer.copy_(values[:, None, None])


AUTO_CLASSES: dict[str, type] = {"AutoConfig": HubConfig, "AutoModelForCausalLM": HubLoopedGPT}
"""What `trust_remote_code` opens a folder with."""
MODULE = "modeling_deeploop"
MODULE_TEXT = f'''"""Opens this folder in transformers; needs the package deeploop."""

from {__name__} import HubConfig, HubLoopedGPT

__all__ = ["HubConfig", "HubLoopedGPT"]
'''
"""The one file of code in a folder."""


def register() -> None:
    """Make the Auto classes of transformers know the model."""
    AutoConfig.register(HubConfig.model_type, HubConfig, exist_ok=True)
    AutoModelForCausalLM.register(HubConfig, HubLoopedGPT, exist_ok=True)


def export(folder: Path, target: Path) -> None:
    """Write a model folder as one that transformers opens, its tokenizer included.

    Raises:
        UserError: `folder` is no model folder, or GPT-2's vocabulary cannot be had.
    """
    model = open_model(folder)
    config = HubConfig(gpt=model.config.model_dump(mode="json"))
    config.architectures = [HubLoopedGPT.__name__]
    config.auto_map = {auto: f"{MODULE}.{cls.__name__}" for auto, cls in AUTO_CLASSES.items()}
    hub = HubLoopedGPT(config)
    hub.model.load_state_dict(model.state_dict())
    hub.tie_weights()
    hub.save_pretrained(target)
    (target / f"{MODULE}.py").write_text(MODULE_TEXT, encoding="utf-8")
    hub_tokenizer(describe(folder).tokenizer).save_pretrained(target)
