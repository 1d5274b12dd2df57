"""Plain versions of the ARC data set and the vote, one example and one row at a time.

Written for the benchmarks and the tests, in the manner of HRM's `build_arc_dataset.py` and
`arc_eval.ipynb`: NumPy's global generator, arrays of one grid, sha256 of bytes, dictionaries.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deeploop.arc.puzzles import PuzzleSet

Grid = np.ndarray
Example = tuple[Grid, Grid]
INVERSE = (0, 3, 2, 1, 4, 5, 6, 7)


def turn(grid: Grid, symmetry: int) -> Grid:
    if symmetry == 0:
        return grid
    if symmetry in (1, 2, 3):
        return np.rot90(grid, k=symmetry)
    if symmetry == 4:
        return np.fliplr(grid)
    if symmetry == 5:
        return np.flipud(grid)
    if symmetry == 6:
        return grid.T
    return np.fliplr(np.rot90(grid))


def grid_digest(grid: Grid) -> str:
    text = [*(side.to_bytes(1, "big") for side in grid.shape), grid.tobytes()]
    return hashlib.sha256(b"".join(text)).hexdigest()


@dataclass
class Member:
    """One augmentation: its identifier, and its examples by split."""

    identifier: str
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def digest(self) -> str:
        pairs = [
            f"{grid_digest(a)}|{grid_digest(b)}"
            for pairs in self.examples.values()
            for a, b in pairs
        ]
        return hashlib.sha256("|".join(sorted(pairs)).encode()).hexdigest()


def augment(member: Member) -> Member:
    symmetry = np.random.randint(0, 8)
    colours = np.concatenate(
        [np.arange(0, 1, dtype=np.uint8), np.random.permutation(np.arange(1, 10, dtype=np.uint8))]
    )
    name = f"{member.identifier}_t{symmetry}_{''.join(str(colour) for colour in colours)}"
    return Member(
        name,
        {
            split: [(turn(colours[a], symmetry), turn(colours[b], symmetry)) for a, b in examples]
            for split, examples in member.examples.items()
        },
    )


def group_of(name: str, examples: dict[str, list[Example]], augmentations: int) -> list[Member]:
    group = [Member(name, examples)]
    seen = {group[0].digest()}
    for _ in range(5 * augmentations if augmentations else 0):
        new = augment(group[0])
        digest = new.digest()
        if digest not in seen:
            seen.add(digest)
            group.append(new)
        if len(group) >= augmentations + 1:
            break
    return group


def load_groups(sets: Iterable[PuzzleSet], augmentations: int) -> list[list[Member]]:
    groups = []
    for one in sets:
        puzzles = list(one.puzzles)
        np.random.shuffle(puzzles)  # type: ignore[arg-type]
        for puzzle in puzzles:
            if one.held_out:
                examples = {
                    "train": [(pair.input, pair.output) for pair in puzzle.train],
                    "test": [(pair.input, pair.output) for pair in puzzle.test],
                }
            else:
                pairs = puzzle.in_file_order
                examples = {"train": [(pair.input, pair.output) for pair in pairs]}
            groups.append(group_of(puzzle.name, examples, augmentations))
    return groups


def to_tokens(example: Example, shift: bool, size: int) -> list[np.ndarray]:
    top = left = 0
    if shift:
        top = np.random.randint(0, size - max(grid.shape[0] for grid in example) + 1)
        left = np.random.randint(0, size - max(grid.shape[1] for grid in example) + 1)
    tokens = []
    for grid in example:
        rows, columns = grid.shape
        padding = ((top, size - top - rows), (left, size - left - columns))
        square = np.pad(grid + 2, padding, constant_values=0)
        if top + rows < size:
            square[top + rows, left : left + columns] = 1
        if left + columns < size:
            square[top : top + rows, left + columns] = 1
        tokens.append(square.flatten())
    return tokens


def split_arrays(
    groups: Sequence[Sequence[Member]], split: str, numbers: Mapping[str, int], size: int
) -> dict[str, np.ndarray]:
    rows: dict[str, list[np.ndarray]] = {"inputs": [], "labels": []}
    identifiers, puzzle_ends, group_ends = [], [0], [0]
    for group in groups:
        for member in group:
            examples = member.examples[split]
            still = np.random.randint(0, len(examples))
            for number, example in enumerate(examples):
                one, other = to_tokens(example, split == "train" and number != still, size)
                rows["inputs"].append(one)
                rows["labels"].append(other)
            puzzle_ends.append(len(rows["inputs"]))
            identifiers.append(numbers[member.identifier])
        group_ends.append(len(identifiers))
    return {
        "inputs": np.stack(rows["inputs"]),
        "labels": np.stack(rows["labels"]),
        "puzzle_identifiers": np.array(identifiers, np.int32),
        "puzzle_indices": np.array(puzzle_ends, np.int32),
        "group_indices": np.array(group_ends, np.int32),
    }


def build(
    sets: Iterable[PuzzleSet], augmentations: int, seed: int = 42, size: int = 30
) -> tuple[list[str], dict[str, dict[str, np.ndarray]]]:
    """Return names of identifiers, and the arrays of both splits."""
    np.random.seed(seed)
    groups = load_groups(sets, augmentations)
    names = ["<blank>", *(member.identifier for group in groups for member in group)]
    numbers = {name: number for number, name in enumerate(names)}
    held_out = [group for group in groups if "test" in group[0].examples]
    splits = {"train": groups, "test": held_out}
    arrays = {split: split_arrays(chosen, split, numbers, size) for split, chosen in splits.items()}
    return names, arrays


def save(names: list[str], arrays: Mapping[str, Mapping[str, np.ndarray]], folder: Path) -> None:
    """Write the arrays and the names as HRM's builder does (`dataset.json` apart)."""
    for split, values in arrays.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        for name, array in values.items():
            np.save(folder / split / f"all__{name}.npy", array)
    (folder / "identifiers.json").write_text(json.dumps(names))


def crop(tokens: np.ndarray) -> Grid:
    """Return the largest rectangle of colours at the corner: all rectangles are tried."""
    size = round(len(tokens) ** 0.5)
    square = tokens.reshape(size, size)
    good = (square >= 2) & (square <= 11)
    best, height, width = 0, 0, 0
    limit = size
    for row in range(size):
        run = 0
        while run < limit and good[row, run]:
            run += 1
        limit = run
        if (row + 1) * limit > best:
            best, height, width = (row + 1) * limit, row + 1, limit
    return (square[:height, :width] - 2).astype(np.uint8)


def undo(name: str, grid: Grid) -> Grid:
    if "_" not in name:
        return grid
    symmetry, colours = name.split("_")[-2:]
    return np.argsort(list(colours)).astype(np.uint8)[turn(grid, INVERSE[int(symmetry[1:])])]


def vote(
    names: Sequence[str], columns: Mapping[str, np.ndarray], ks: Sequence[int]
) -> dict[int, float]:
    """Return the fraction of puzzles right at each K; ties keep the order of rows."""
    labels: dict[str, dict[bytes, bytes]] = defaultdict(dict)
    ballots: dict[tuple[str, bytes], dict[bytes, list[float]]] = defaultdict(dict)
    probability = 1 / (1 + np.exp(-columns["q_halt_logits"].astype(np.float64)))
    for row, identifier in enumerate(columns["puzzle_identifiers"]):
        if identifier == 0:
            continue
        name = names[identifier]
        puzzle = name.split("_")[0]
        asked = digest_of(undo(name, crop(columns["inputs"][row])))
        answer = digest_of(undo(name, crop(columns["preds"][row])))
        if "_" not in name:
            labels[puzzle][asked] = digest_of(crop(columns["labels"][row]))
        entry = ballots[puzzle, asked].setdefault(answer, [0, 0.0])
        entry[0] += 1
        entry[1] += float(probability[row])
    return {k: _share(labels, ballots, k) for k in ks}


def _share(
    labels: Mapping[str, Mapping[bytes, bytes]],
    ballots: Mapping[tuple[str, bytes], Mapping[bytes, list[float]]],
    k: int,
) -> float:
    right = 0
    for puzzle, tests in labels.items():
        solved = 0
        for asked, label in tests.items():
            candidates = ballots[puzzle, asked].items()
            ranked = sorted(
                candidates, key=lambda one: (one[1][0], one[1][1] / one[1][0]), reverse=True
            )
            solved += label in [answer for answer, _ in ranked[:k]]
        right += solved == len(tests)
    return right / len(labels)


def digest_of(grid: Grid) -> bytes:
    return bytes(grid.shape) + grid.tobytes()
