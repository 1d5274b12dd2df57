"""A score of each training."""

from deeploop.stage import Draft, Section, Stage


class EvaluateSection(Section):
    shots: int = 0


def expand(section, plan):
    for draft in plan.of("train"):
        yield Draft(draft.name, {"shots": section.shots}, inputs=(("train", draft.name),))


def run(job):
    """Write a number made of the weights."""
    weights = (job.input("train").folder / "weights.txt").read_text()
    (job.folder / "scores.txt").write_text(f"{job.params['shots']}:{int(weights, 16) % 101}")


STAGE = Stage("evaluate", "scores", EvaluateSection, expand)
