"""``cnnpool train`` for people who run scripts from a checkout."""

import sys

from cnnpool.cli import main

# Processes of a sweep import this file.
if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
