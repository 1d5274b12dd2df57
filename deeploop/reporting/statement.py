"""What a reader must know before reading a single number of a suite that is not the paper's."""

from __future__ import annotations

from deeploop.reporting.record import Record


class Statement(Record):
    """The text at the head of the report."""

    title: str
    paragraphs: tuple[str, ...]


_NOT_THE_PAPERS = "These numbers are not the paper's."

_SMALL = Statement(
    title=_NOT_THE_PAPERS,
    paragraphs=(
        "This suite trains models thousands of times smaller than the paper's, for hundreds of "
        "steps instead of 100,000, on the bytes of a small text, so that every step from data to "
        "table runs on a laptop. The published values beside the reproduced ones show what the "
        "paper suite is measured against; at this scale, agreeing with them or differing from "
        "them means nothing.",
        "What cannot be seen here: the paper's headline gap. DeepLoop's gain of 0.015 to 0.028 "
        "nats at R ≥ 3 belongs to its width and its 100,000 steps. In trials at this scale, base "
        "mostly reached the lower loss where both trained, R = 1 included.",
        "What can be seen: at the edge of stability outcomes are bimodal. A run trains, or never "
        "leaves the unigram floor, and how many seeds train depends on p. So the fraction that "
        "trains and every seed are shown, never a mean alone. It depends on the configuration: "
        "the learning rate here was chosen near that edge; at other learning rates and depths "
        "the order of the rules changes, and can be the opposite.",
        "Downstream accuracy and ARC votes of models this small are expected at the level of "
        "guessing: those tables show that the path from a model to them works, and each says "
        "what guessing gets.",
    ),
)

_STATEMENTS = {
    "paper": None,
    "smoke": Statement(
        title=_NOT_THE_PAPERS,
        paragraphs=(
            "This suite takes seconds: it shows that every stage runs and that its numbers arrive "
            "in the right place. Nothing about looped Transformers can be read from it.",
        ),
    ),
    "extras": Statement(
        title="These runs go beyond the paper.",
        paragraphs=(
            "They are what the paper leaves out or names as future work. Where a published value "
            "stands beside a number, it is of the nearest run that the paper does report.",
        ),
    ),
}


def statement(suite: str) -> Statement | None:
    """Return what must be said before the numbers of `suite`; None for the paper's own suite."""
    return _STATEMENTS.get(suite, _SMALL)
