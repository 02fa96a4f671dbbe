"""``cnnpool explain`` for people who run scripts from a checkout."""

import sys

from cnnpool.cli import main

main(["explain", *sys.argv[1:]])
