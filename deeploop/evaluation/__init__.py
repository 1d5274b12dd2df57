"""Downstream evaluation: an adapter to lm-evaluation-harness."""
