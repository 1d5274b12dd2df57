"""The stages, in topological order."""

from stages import (
    build_arc,
    evaluate_lm,
    fetch_arc,
    fetch_tasks,
    fetch_text,
    p_sweep,
    predict_arc,
    report,
    table1,
    table2,
    table3,
    table4,
    tokenize,
    train_hrm,
    train_lm,
    vote_arc,
)

REGISTRY = (
    fetch_text.STAGE,
    tokenize.STAGE,
    train_lm.STAGE,
    fetch_tasks.STAGE,
    evaluate_lm.STAGE,
    fetch_arc.STAGE,
    build_arc.STAGE,
    train_hrm.STAGE,
    predict_arc.STAGE,
    vote_arc.STAGE,
    table1.STAGE,
    table2.STAGE,
    table3.STAGE,
    table4.STAGE,
    p_sweep.STAGE,
    report.STAGE,
)
