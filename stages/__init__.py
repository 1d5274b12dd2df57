"""The stages, in topological order."""

from stages import (
    evaluate_lm,
    fetch_tasks,
    p_sweep,
    report,
    table1,
    tokenize,
    train_lm,
    training_curves,
)

REGISTRY = (
    tokenize.STAGE,
    train_lm.STAGE,
    fetch_tasks.STAGE,
    evaluate_lm.STAGE,
    table1.STAGE,
    p_sweep.STAGE,
    training_curves.STAGE,
    report.STAGE,
)
