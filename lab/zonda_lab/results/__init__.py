"""Results on disk: one record per window, and where the programs came from."""
