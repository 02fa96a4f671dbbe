"""Command-line options whose error messages are one line."""

import argparse
import json
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Without abbreviations, with an epilog as it is written, and its error as a ValueError of one line."""

    def __init__(
        self, prog: str, description: str, epilog: str = "", usage: str | None = None, add_help: bool = True
    ):
        own: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
        super().__init__(prog, usage, description, epilog, add_help=add_help, **own)

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see --help")


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def assignment(text: str) -> tuple[str, Any]:
    """Parse ``key=value``: a number, true, false, null, a list separated by commas, or a text."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"expected KEY=VALUE, got {text!r}")
    parts = value.strip("[]").split(",") if "," in value or value.startswith("[") else None
    return key, plain(value) if parts is None else tuple(plain(part.strip()) for part in parts)


def plain(text: str) -> Any:
    """``text`` parsed as JSON, or unchanged where it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def train_parser() -> Parser:
    """The options of ``cnnpool train``; all other arguments are KEY=VALUE."""
    about = "Train one network, or with -m one for every combination of choices and settings."
    parser = Parser("cnnpool train", about, add_help=False)
    add = parser.add_argument
    add("overrides", nargs="*", metavar="KEY=VALUE", help="a choice or a setting; see below")
    add("-h", "--help", action="store_true", help="show what can be chosen and set, and run nothing")
    add("-m", "--multirun", action="store_true", help="a sweep: one run for every combination of the values")
    add("-c", "--cfg", choices=("job", "hydra", "all"), help="print the configuration, and run nothing")
    add("--resolve", action="store_true", help="with --cfg: follow the references in it")
    add("-p", "--package", metavar="KEY", help="with --cfg: only this part of it")
    add("--info", nargs="?", const="all", choices=INFO, help="print how the configuration is composed")
    add_configuration(parser)
    most = f"most jobs of a sweep (default: {MOST_JOBS})"
    add("--max-jobs", type=count, metavar="N", help=most, default=MOST_JOBS)
    return parser


def add_configuration(parser: Parser) -> None:
    """Add the options that select where a configuration is read from."""
    add = parser.add_argument
    add("-cd", "--config-dir", type=Path, metavar="DIR", help="a folder with choices of your own")
    start = "the file to begin with (default: train)"
    add("-cn", "--config-name", metavar="NAME", help=start, default="train")


INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
MOST_JOBS = 10_000
