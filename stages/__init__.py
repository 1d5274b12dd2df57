"""Stages: one module each, its declaration beside its `run`."""
