"""ARC puzzles: grids, augmentation, the data set and the vote."""
