"""Puzzles made up for the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deeploop.arc.puzzles import Pair, Puzzle, PuzzleSet

Json = dict[str, Any]


def random_grid(rng: np.random.Generator, largest: int = 6) -> np.ndarray:
    height, width = rng.integers(1, largest + 1, 2)
    return rng.integers(0, 10, (height, width)).astype(np.uint8)


def random_puzzle(seed: int, largest: int = 6, tests: int = 1) -> Json:
    rng = np.random.default_rng(seed)
    pairs = [
        {role: random_grid(rng, largest).tolist() for role in ("input", "output")}
        for _ in range(2 + tests)
    ]
    return {"train": pairs[:2], "test": pairs[2:]}


def to_puzzle(name: str, value: Json) -> Puzzle:
    def pairs(key: str) -> tuple[Pair, ...]:
        return tuple(
            Pair(np.array(one["input"], np.uint8), np.array(one["output"], np.uint8))
            for one in value[key]
        )

    return Puzzle(name, pairs("train"), pairs("test"), next(iter(value)) == "test", f"{name}.json")


def made_up_values() -> dict[str, dict[str, Json]]:
    """Set -> file -> puzzle: one flat in colour, one with two tests, one with "test" first."""
    flat = {
        "train": [{"input": [[1]], "output": [[2, 2]]}],
        "test": [{"input": [[1, 1]], "output": [[2]]}],
    }
    backwards = random_puzzle(4)
    return {
        "training": {
            "a1.json": random_puzzle(1),
            "a2.json": flat,
            "a3.json": {key: backwards[key] for key in ("test", "train")},
        },
        "evaluation": {"b1.json": random_puzzle(2, tests=2), "b2.json": random_puzzle(3)},
    }


def made_up_sets() -> list[PuzzleSet]:
    """The same puzzles, checked, in sorted order."""
    return [
        PuzzleSet(name, tuple(to_puzzle(file[:-5], value) for file, value in files.items()))
        for name, files in sorted(made_up_values().items())
    ]


def write_sets(folder: Path, values: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write sets of puzzles: JSON values, or bytes as they are."""
    for name, files in values.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, value in files.items():
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            (folder / name / file).write_bytes(content)
    return folder
