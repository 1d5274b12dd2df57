"""The stages, in topological order."""

from stages import p_sweep, report, table1, tokenize, train_lm, training_curves

REGISTRY = (
    tokenize.STAGE,
    train_lm.STAGE,
    table1.STAGE,
    p_sweep.STAGE,
    training_curves.STAGE,
    report.STAGE,
)
