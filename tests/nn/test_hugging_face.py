from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.evaluation.models import make_model

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from deeploop.nn.hugging_face import export, register

    folder = tmp_path_factory.mktemp("hub")
    make_model(folder / "ours", layers=2, init_gain=8)
    export(folder / "ours", folder / "theirs")
    register()
    return folder


def prompt() -> torch.Tensor:
    return torch.randint(1, 256, (2, 9), generator=torch.Generator().manual_seed(0))


def test_the_auto_class_opens_it_with_a_tied_head_and_a_slot_a_visit(exported: Path) -> None:
    import deeploop

    theirs = transformers.AutoModelForCausalLM.from_pretrained(exported / "theirs").eval()
    assert theirs.lm_head.weight is theirs.model.embedding
    ours = deeploop.load(exported / "ours")
    with torch.no_grad():
        found = theirs(prompt(), labels=prompt(), use_cache=True)
    torch.testing.assert_close(found.logits, ours.logits(prompt()), rtol=1e-5, atol=1e-5)
    assert len(found.cache.layers) == 2 * 2  # K * R
    expected = ours(prompt()[:, :-1], prompt()[:, 1:])
    torch.testing.assert_close(found.loss, expected, rtol=1e-5, atol=1e-5)


def test_greedy_generation_is_that_of_the_uncached_forward(exported: Path) -> None:
    theirs = transformers.AutoModelForCausalLM.from_pretrained(exported / "theirs").eval()
    made = theirs.generate(prompt(), max_new_tokens=8, do_sample=False, pad_token_id=0)
    tokens = prompt()
    for _ in range(8):
        with torch.no_grad():
            best = theirs(tokens).logits[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat((tokens, best), dim=1)
    assert torch.equal(made, tokens)
    assert len(set(made[0, 9:].tolist())) > 3  # it does not merely repeat itself


def test_prompts_of_different_lengths_generate_as_alone(exported: Path) -> None:
    theirs = transformers.AutoModelForCausalLM.from_pretrained(exported / "theirs").eval()
    settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    long, short = prompt()[:1], prompt()[1:, :5]
    padded = torch.cat((torch.zeros(1, 4, dtype=torch.int64), short), dim=1)
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, :4] = 0
    both = theirs.generate(torch.cat((long, padded)), attention_mask=mask, **settings)
    assert torch.equal(both[0, 9:], theirs.generate(long, **settings)[0, 9:])
    assert torch.equal(both[1, 9:], theirs.generate(short, **settings)[0, 5:])
