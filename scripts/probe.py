"""``cnnpool probe`` for people who run scripts from a checkout."""

import sys

from cnnpool.cli import main

main(["probe", *sys.argv[1:]])
