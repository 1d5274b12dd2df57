"""Grids, apart from the text."""

from deeploop.stage import Draft, Section, Stage


class GridsSection(Section):
    file: str
    augmentations: int = 1


def expand(section, plan):
    yield Draft("all", {"augmentations": section.augmentations}, files=(section.file,))


def run(job):
    """Repeat the numbers."""
    words = job.files[0].read_text().split()
    (job.folder / "set.txt").write_text(" ".join(words * job.params["augmentations"]))


STAGE = Stage("grids", "grids", GridsSection, expand)
