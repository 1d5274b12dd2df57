"""The stages, in topological order."""
