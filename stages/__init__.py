"""The stages, in topological order."""

from stages import fetch_text, p_sweep, report, table1, tokenize, train_lm, training_curves

REGISTRY = (
    fetch_text.STAGE,
    tokenize.STAGE,
    train_lm.STAGE,
    table1.STAGE,
    p_sweep.STAGE,
    training_curves.STAGE,
    report.STAGE,
)
