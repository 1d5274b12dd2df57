from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.evaluation.models import make_model

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def byte_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("byte_model")
    make_model(folder)
    return folder


@pytest.fixture(scope="session")
def gpt2_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2_model")
    make_model(folder, "gpt2", vocab_size=50304)
    return folder
