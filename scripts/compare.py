"""``cnnpool compare`` for people who run scripts from a checkout."""

import sys

from cnnpool.cli import main

main(["compare", *sys.argv[1:]])
