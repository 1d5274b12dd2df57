"""The stages of the paper, one module each: a declaration and its `run`."""
