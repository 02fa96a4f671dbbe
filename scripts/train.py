"""``cnnpool train`` for people who run scripts from a checkout."""

import sys

from cnnpool.cli import main

main(["train", *sys.argv[1:]])
