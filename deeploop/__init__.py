"""DeepLoop: depth scaling for looped Transformers, as a program that rebuilds its own tables."""

__version__ = "0.1.0"
