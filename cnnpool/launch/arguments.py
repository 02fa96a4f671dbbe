"""A command line of ``cnnpool train`` before Hydra reads it: in order, and without what cannot be meant."""

import re
from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser

from cnnpool.launch.config import SECTIONS, conf_dir
from cnnpool.launch.untrusted import FOLDERS, NO_SECRET, is_secret

VALUED = (*FOLDERS, "--config-name", "-cn", "--cfg", "-c", "--package", "-p")
PLACES = ("out", "hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")


def in_order(arguments: Sequence[str]) -> list[str]:
    """Options first: what follows an option that stands among overrides is no override to Hydra.

    Raises:
        ValueError: naming the override that cannot be meant.
    """
    options, overrides = [], []
    for at, argument in enumerate(arguments):
        if argument.startswith("-") or (at and arguments[at - 1] in VALUED):
            options.append(argument)
        else:
            _check(argument)
            overrides.append(argument)
    # An --info without a value would take the first override for it.
    return list(arguments) if "--info" in options else [*options, *overrides]


def _check(argument: str) -> None:
    try:
        override = OverridesParser.create().parse_override(argument)
    except Exception:  # the parser's own, or its library's
        raise ValueError(
            f"{argument}: not of the form key=value; a value with signs or spaces stands between quotes"
        ) from None
    key, value = override.key_or_group, argument.partition("=")[2].strip()
    if is_secret(key):
        raise ValueError(f"{key}: {NO_SECRET}")
    if override.is_add() and key.partition(".")[0].partition("@")[0] not in (*SECTIONS, "hydra"):
        raise ValueError(f"unknown key {key!r}; known are {', '.join(SECTIONS)}")
    if override.is_delete() and key in SECTIONS and key != "experiment":
        raise ValueError(f"{argument}: every run needs a {key}; choose another by {key}=VALUE")
    if key in PLACES and not value.strip("'\""):
        raise ValueError(f"{argument}: names no folder; leave it out for the usual one")
    if not key or ((conf_dir() / key).is_dir() and re.match(r"[\[\d]", value)):
        raise ValueError(f"{argument}: a choice is made by its name, such as pool=max")
