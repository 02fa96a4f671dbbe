"""From a command line of ``cnnpool train`` to jobs: composed, checked, run here or elsewhere, and counted."""
