"""Command-line options whose mistakes are one line."""

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose complaint is one line, raised as ValueError."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see --help")
