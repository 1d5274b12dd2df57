"""The stages, in topological order."""

from stages import (
    build_arc,
    fetch_arc,
    p_sweep,
    report,
    table1,
    tokenize,
    train_lm,
    training_curves,
    vote_arc,
)

REGISTRY = (
    tokenize.STAGE,
    fetch_arc.STAGE,
    build_arc.STAGE,
    train_lm.STAGE,
    vote_arc.STAGE,
    table1.STAGE,
    p_sweep.STAGE,
    training_curves.STAGE,
    report.STAGE,
)
