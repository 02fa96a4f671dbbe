"""Files of a run, written and read in one place."""
