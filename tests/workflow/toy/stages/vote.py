"""A vote on the grids."""

from deeploop.stage import Draft, Section, Stage


class VoteSection(Section):
    votes: int = 1


def expand(section, plan):
    yield Draft("all", {"votes": section.votes}, inputs=(("grids", "all"),))


def run(job):
    """Write votes and grids."""
    grids = (job.input("grids").folder / "set.txt").read_text()
    (job.folder / "votes.txt").write_text(f"{job.params['votes']} {grids}")


STAGE = Stage("vote", "votes", VoteSection, expand)
