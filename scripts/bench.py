"""``cnnpool bench`` for people who run scripts from a checkout."""

import sys

from cnnpool.cli import main

main(["bench", *sys.argv[1:]])
