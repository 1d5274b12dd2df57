"""One training loop for both models: optimizers, schedules, checkpoints, distribution."""
