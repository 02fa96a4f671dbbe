"""The KEY=VALUE part of a command line: parsed by Hydra's parser, then checked."""

import os
import re
import shlex
from collections.abc import Callable, Iterable
from itertools import islice

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from cnnpool import registry
from cnnpool.launch.config import (
    CALLED,
    CONTROL,
    HYDRA_KEYS,
    NO_SECRET,
    ONE_LINE,
    is_secret,
    refuse_code,
    refuse_hydra,
)
from cnnpool.schema import GROUPS, SECTIONS
from cnnpool.system.output import shortened

FORM = "expected KEY=VALUE, e.g. pool=max"
FOLDERS = ("out", *HYDRA_KEYS[:3])
PATHS = ("data.root", "model.weights", *FOLDERS)
PLUGINS = ("hydra/sweeper", "hydra/launcher")
NONE_OF = {"callback": "[]", "log": "tensorboard", "probe": "none"}  # Choices that may be left out
PARAMS = "hydra.sweeper.params"
PARSER = OverridesParser.create()
PACKAGES = ("timm", "torchvision")  # Of networks that ``model=PACKAGE:ARCH`` names

Names = Callable[[str], list[str]]


def parse(lines: Iterable[str]) -> list[Override]:
    """Parse the overrides of a command line; the last one of a key counts."""
    found = {}
    for line in lines:
        for override in _of_sweep(_parse(line)):
            found[override.get_key_element()] = override
    return list(found.values())


def _of_sweep(override: Override) -> list[Override]:
    """The values of ``hydra.sweeper.params``, which mean the same as those of the keys themselves."""
    key, value = override.key_or_group, override.value()
    if key == PARAMS and isinstance(value, dict):
        return [_parse(f"{one}={text}") for one, text in value.items()]
    if key.startswith(f"{PARAMS}."):
        return [_parse(line_of(override).lstrip("+").removeprefix(f"{PARAMS}."))]
    return [override]


def alternatives(override: Override, names: Names, most: int) -> list[Override]:
    """One override per value of a sweep, ``most`` at most; any other override alone."""
    key, line = override.get_key_element(), line_of(override)
    if override.is_hydra_override() or override.is_delete() or "${" in line:
        return [override]
    if not override.is_sweep_override():
        return [_parse(f"{key}={override.get_value_element_as_str()}")]
    if not override.is_discrete_sweep():
        raise ValueError(
            f"{line}: an interval has infinitely many values; list some, or use range(start, stop, step)"
        )
    value = override.value()
    try:
        values = value.filter(names(key)) if isinstance(value, Glob) else override.sweep_string_iterator()
        found = [_parse(f"{key}={one}") for one in islice(values, most)]
    except HydraException as error:
        raise ValueError(f"{line}: {error}") from None
    except OmegaConfBaseException:
        raise ValueError(f"{line}: a function such as range() cannot be part of a list of values") from None
    if not found:
        raise ValueError(f"{line}: it matches no value, so there is nothing to run")
    return found


def line_of(override: Override) -> str:
    assert override.input_line is not None
    return override.input_line


def expanded(override: Override) -> list[str]:
    """The lines passed to Hydra: two for ``model=PACKAGE:ARCH`` and ``data=torchvision:DATASET``.

    The operator of a stage that is found only when the network is built is added to the defaults.
    """
    line = line_of(override)
    if override.key_or_group in NONE_OF and not override.is_sweep_override():
        return _several(override)
    if override.is_delete() or override.is_sweep_override():
        return [line]
    value = override.value()
    if override.key_or_group == "model" and isinstance(value, str):
        package, _, arch = value.partition(":")
        if arch and package in PACKAGES:
            return [f"model={package}", f"model.arch={arch}"]
    if override.key_or_group == "data" and isinstance(value, str) and value.startswith("torchvision:"):
        return ["data=torchvision", f"data.dataset={value.partition(':')[2]}"]
    # A key may be added that is there already: ``+trainer.fast_dev_run=true`` is in many hands.
    is_new = override.is_add() and not is_choice(override.key_or_group)
    return [f"+{line}" if is_new or (is_of_late_stage(override) and not override.is_add()) else line]


def _several(override: Override) -> list[str]:
    """The lines of a choice of several names, one or none; TensorBoard is always there."""
    key, value = override.key_or_group, None if override.is_delete() else override.value()
    given = value if isinstance(value, list) else [value]
    names = list(dict.fromkeys(str(name) for name in given if name not in (None, "tensorboard")))
    if not names:
        return [f"{key}={NONE_OF[key]}"]
    listed = f"{key}=[{','.join(names)}]"
    if key != "callback" and len(names) == 1:
        return [f"{key}={names[0]}"]
    # Of several logs' files the last one's name would count.
    return [listed, listed.replace("log", "log.name", 1)] if key == "log" else [listed]


def is_network(word: str) -> bool:
    """Whether ``model=word`` names a network of an installed package, by its name or MODULE:FUNCTION."""
    package, is_value, _ = word.partition(":")
    return word in registry.names({}, "networks") or bool(is_value and package not in PACKAGES)


def is_of_late_stage(override: Override) -> bool:
    """Whether it chooses the operator of a stage that only a published network has."""
    stage = (override.package or "s1").removeprefix("stage.")
    return override.key_or_group == "pool" and not re.fullmatch(r"s\d+", stage)


def is_plugin(key: str) -> bool:
    """Whether ``key`` chooses or sets a sweeper or launcher of Hydra's."""
    return re.match(r"hydra[/.](sweeper|launcher)\b", key) is not None and not key.endswith(CALLED)


def is_choice(key: str) -> bool:
    """Whether ``key`` selects a choice by its name, such as ``pool``."""
    return key in (*GROUPS, "experiment")


def _parse(line: str) -> Override:
    if CONTROL.search(line):
        raise ValueError(f"{shortened(repr(line))}: {ONE_LINE}")
    if not line.lstrip("+~").partition("=")[0].strip():
        raise ValueError(f"{shortened(line) or repr(line)}: {FORM}")
    if is_choice(line.lstrip("+").partition("=")[0]):
        # Every choice is there already: ``+experiment=NAME`` is in many hands.
        line = line.lstrip("+")
    try:
        override = PARSER.parse_override(line)
    except (HydraException, RecursionError, ValueError):
        # A number with thousands of digits raises a ValueError.
        override = _quoted(line)
    _check(override, line)
    return override


def _quoted(line: str) -> Override:
    """Parse a line that Hydra rejects because of special characters: a path is taken literally."""
    key, _, value = line.partition("=")
    if key in PATHS:
        value = os.path.expanduser(value)
    # A backslash is special only before a quote.
    inside = re.sub(r"(\\*)('|$)", lambda found: 2 * found[1] + ("\\'" if found[2] else ""), value)
    quoted = f"{key}='{inside}'"
    message = f"{shortened(line)}: {FORM}"
    try:
        override = PARSER.parse_override(quoted)
    except (HydraException, RecursionError, ValueError):
        raise ValueError(message) from None
    if key not in PATHS:
        raise ValueError(f"{message}; quote special characters: {shortened(shlex.quote(quoted))}")
    return override


def _check(override: Override, line: str) -> None:
    key = override.key_or_group
    section = key.partition(".")[0].partition("/")[0]
    # The values of a sweep are checked one by one, with the settings of its jobs.
    if is_secret(key, None if override.is_sweep_override() else override.value()):
        raise ValueError(f"{key}: {NO_SECRET}")
    if section == "hydra" or (override.package or "").partition(".")[0] == "hydra":
        if not (key in HYDRA_KEYS or is_plugin(key)) or override.package or override.is_delete():
            raise refuse_hydra(line)
        if override.is_sweep_override() and not key.startswith(PARAMS):
            raise ValueError(f"{line}: the jobs of a sweep share Hydra's own settings")
    elif section not in SECTIONS and (override.is_add() or override.is_force_add()):
        raise ValueError(f"unknown key {key!r}; known are {', '.join(SECTIONS)}")
    elif override.is_delete() and key in SECTIONS and key not in ("experiment", *NONE_OF):
        raise ValueError(f"{line}: every run needs a {key}; choose another by {key}=VALUE")
    elif override.is_sweep_override() and section == "launch":
        raise ValueError(f"{line}: all jobs of a sweep share one launcher")
    if not override.is_delete() and not override.is_sweep_override():
        _check_value(override, line)


def _check_value(override: Override, line: str) -> None:
    key, value = override.key_or_group, override.value()
    refuse_code(value, f"{key}.")
    if key in FOLDERS and (value is None or not str(value).strip()):
        raise ValueError(f"{line}: names no folder; leave it out for the default")
    several = key in NONE_OF and (value is None or (isinstance(value, list) and key != "probe"))
    if is_choice(key) and not isinstance(value, str) and not several:
        raise ValueError(f"{shortened(line)}: a choice is made by its name, such as pool=max")
