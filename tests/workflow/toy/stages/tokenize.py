"""Words of a text."""

from deeploop.stage import Draft, Section, Stage
from stages.words import split


class Text(Section):
    file: str
    lower: bool = True


class TokenizeSection(Section):
    text: Text


def expand(section, plan):
    params = {"lower": section.text.lower}
    yield Draft("text", params, files=(section.text.file,))


def run(job):
    """Write the words."""
    text = "".join(path.read_text() for path in job.files)
    (job.folder / "tokens.txt").write_text(" ".join(split(text, job.params["lower"])))


STAGE = Stage("tokenize", "words", TokenizeSection, expand, pinned=False)
