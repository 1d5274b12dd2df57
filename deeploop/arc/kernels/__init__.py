"""What must be compiled to be fast: random streams, hashes, augmentation, rendering, votes."""
