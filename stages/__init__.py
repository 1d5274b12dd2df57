"""The stages, in topological order."""

from stages import (
    build_arc,
    fetch_arc,
    hrm_harness_check,
    p_sweep,
    predict_arc,
    report,
    table1,
    tokenize,
    train_hrm,
    train_lm,
    training_curves,
    vote_arc,
)

REGISTRY = (
    tokenize.STAGE,
    fetch_arc.STAGE,
    build_arc.STAGE,
    train_lm.STAGE,
    train_hrm.STAGE,
    predict_arc.STAGE,
    vote_arc.STAGE,
    hrm_harness_check.STAGE,
    table1.STAGE,
    p_sweep.STAGE,
    training_curves.STAGE,
    report.STAGE,
)
