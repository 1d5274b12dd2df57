"""A paper of seconds: the shape of the real one, with stages that only hash."""

from stages import evaluate, grids, report, tokenize, train, vote

REGISTRY = (tokenize.STAGE, train.STAGE, evaluate.STAGE, grids.STAGE, vote.STAGE, report.STAGE)
