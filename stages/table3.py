"""Table 3 and the voting ladder: ARC puzzles solved by HRM."""

from __future__ import annotations

from collections.abc import Iterator

from deeploop.reporting.drafts import PUBLISHED_FILE, table_draft
from deeploop.stage import Draft, Job, Planned, Section, Stage


class Table3Section(Section):
    """What a suite may say about Table 3: nothing."""


def expand(section: Table3Section, plan: Planned) -> Iterator[Draft]:
    """Plan one table over the votes of group `table3`, and the suite's others beside them."""
    drafts = plan.of("vote_arc", group="table3")
    others = [draft for draft in plan.of("vote_arc") if "table3" not in draft.groups]
    if not drafts or not others:
        return table_draft("vote_arc", drafts)
    beside = {"beside": [f"vote_arc/{draft.name}" for draft in others]}
    return table_draft("vote_arc", [*drafts, *others], beside)


def run(job: Job) -> None:
    """Write `table3.{json,csv,md,tex}` and the voting ladder."""
    from deeploop.reporting.artifacts import write_exhibit
    from deeploop.reporting.make import votes
    from deeploop.reporting.runs import placed_runs

    beside = job.params.get("beside", ())
    write_exhibit(votes(placed_runs(job), job.folder, beside), job.folder)


STAGE = Stage(
    name="table3",
    about="Table 3 and the voting ladder: ARC puzzles solved by HRM",
    section=Table3Section,
    expand=expand,
    libraries=("matplotlib", "polars"),
    data=(PUBLISHED_FILE,),
    local=True,
)
