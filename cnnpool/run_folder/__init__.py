"""Files that a run leaves, written and read in one place."""
