"""Puzzle identifiers: a number per augmented puzzle, and HRM's names for them.

A name is the puzzle's, or `<puzzle>_t<symmetry>_<ten colours>` where augmented.
"""

from __future__ import annotations

from deeploop.arc.plan import ArcPlan

BLANK = "<blank>"
"""Name of identifier 0, which pads batches."""


def identifier_names(plan: ArcPlan) -> list[str]:
    """Return the names of identifiers 0 to M, as HRM's `identifiers.json` lists them."""
    digits = (plan.colours + ord("0")).tobytes().decode("ascii")
    symmetries = plan.symmetries.tolist()
    names = [BLANK]
    for puzzle, start in zip(plan.puzzles, plan.member_starts.tolist(), strict=False):
        names.append(puzzle.name)
        names.extend(
            f"{puzzle.name}_t{symmetries[m]}_{digits[10 * m : 10 * m + 10]}"
            for m in range(start + 1, start + puzzle.members)
        )
    return names
