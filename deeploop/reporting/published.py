"""The paper's published numbers, typed: what every reproduced number is set beside.

They live in `reports/published.yaml`, which also names the table or figure each comes from. A
number the paper does not give is None, so that a cell without a published value says so.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from deeploop.reporting.record import Record

PATH = Path(__file__).resolve().parents[2] / "reports" / "published.yaml"

AVERAGE = "avg"
"""The column of a downstream table that the paper prints beside the eight tasks."""


class ValidationLoss(Record):
    """Table 1: loss by backbone, scaling and R."""

    source: str
    unit: str
    values: dict[str, dict[str, dict[int, float]]]
    """backbone -> scaling -> R -> nats per token."""
    differences: dict[str, dict[int, float]]
    """backbone -> R -> DeepLoop minus base as printed."""


class DownstreamTable(Record):
    """Table 2 or Table 4."""

    source: str
    shots: dict[int, dict[str, dict[int, tuple[float, ...]]]]
    """shots -> scaling -> R -> percent for each task, then the printed average."""


class Downstream(Record):
    """Tables 2 and 4."""

    unit: str
    tasks: tuple[str, ...]
    tables: dict[str, DownstreamTable]
    """By backbone."""
    stated_differences: dict[str, dict[int, dict[int, float]]]
    """backbone -> shots -> R -> DeepLoop minus base average in points, as the text states it."""


class ArcVotes(Record):
    """Table 3."""

    source: str
    unit: str
    values: dict[str, dict[int, float]]
    """rule -> votes -> percent of puzzles."""
    differences: dict[int, float]
    """votes -> DeepLoop minus vanilla, in points, as printed."""
    puzzles: int
    seed_std_at_2_votes: float
    """Percentage points, over `control_seeds` seeds."""
    control_seeds: int
    stated_sigmas: float
    """How many standard deviations the text calls the gain at 2 votes."""
    arc2_published_checkpoint_at_2_votes: float


class PSweep(Record):
    """Figure 6: markers are not published as numbers, only the means of the seeds that train."""

    source: str
    unit: str
    backbone: str
    loops: int
    step: int
    """Step whose validation loss is reported."""
    steps_in_budget: int
    seeds_up_to: int
    budget_minutes: int
    gpus: int
    unigram_floor: float
    """Nats per token."""
    p: tuple[float, ...]
    trained_mean: dict[float, float]
    """p -> mean loss of the seeds that train."""
    all_seeds_fail: tuple[float, ...]
    some_seeds_fail: tuple[float, ...]
    no_seed_fails: tuple[float, ...]

    def fraction(self, p: float) -> str | None:
        """Return what the paper says of the seeds at `p`: `none`, `some` or `all` train."""
        for word, values in (
            ("none", self.all_seeds_fail),
            ("some", self.some_seeds_fail),
            ("all", self.no_seed_fails),
        ):
            if p in values:
                return word
        return None


class Compute(Record):
    """Appendix 11."""

    source: str
    gpu: str
    gpus: dict[str, int]
    """backbone -> GPUs of a run."""
    wall_clock_hours: dict[str, dict[int, float]]
    """backbone -> R -> hours."""
    gpu_hours: dict[str, dict[int, float]]
    """backbone -> R -> GPU-hours of one run."""
    lm_matrix_gpu_hours: float
    exploratory_gpu_hours: float
    project_gpu_hours: float


class Training(Record):
    """Section 5.1."""

    source: str
    dataset: str
    steps: int
    context_length: int
    batch_sequences: int
    loops: tuple[int, ...]
    backbones: dict[str, dict[str, int]]
    """backbone -> hidden_size and layers."""


class Published(Record):
    """Every number of the paper, with its source."""

    source: str
    title: str
    validation_loss: ValidationLoss
    downstream: Downstream
    arc_votes: ArcVotes
    p_sweep: PSweep
    compute: Compute
    training: Training

    def loss(self, backbone: str, scaling: str, loops: int) -> float | None:
        """Return Table 1's validation loss in nats per token."""
        return self.validation_loss.values.get(backbone, {}).get(scaling, {}).get(loops)

    def loss_difference(self, backbone: str, loops: int) -> float | None:
        """Return Table 1's DeepLoop minus base, as printed."""
        return self.validation_loss.differences.get(backbone, {}).get(loops)

    def accuracy(
        self, backbone: str, shots: int, scaling: str, loops: int, task: str
    ) -> float | None:
        """Return Table 2's or 4's accuracy in percent; `task` may be `avg`, as printed."""
        table = self.downstream.tables.get(backbone)
        row = table.shots.get(shots, {}).get(scaling, {}).get(loops) if table else None
        columns = (*self.downstream.tasks, AVERAGE)
        return row[columns.index(task)] if row and task in columns else None

    def vote_difference(self, votes: int) -> float | None:
        """Return Table 3's DeepLoop minus vanilla in points, as printed."""
        return self.arc_votes.differences.get(votes)

    def voted(self, rule: str, votes: int) -> float | None:
        """Return Table 3's accuracy in percent."""
        return self.arc_votes.values.get(rule, {}).get(votes)


@cache
def published() -> Published:
    """Read `reports/published.yaml`."""
    return Published.model_validate(yaml.safe_load(PATH.read_text(encoding="utf-8")))
