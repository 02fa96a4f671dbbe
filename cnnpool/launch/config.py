"""The settings of a run as plain data, and a user's configuration files, both without code."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from cnnpool.schema import GROUPS, SECTIONS, choices
from cnnpool.system.output import shortened

CODE = ("_target_", "_partial_", "_args_", "_recursive_", "_convert_")
CALLED = ("_target_", "custom_search_space")  # Ends of keys by which a plugin of Hydra's would name code
NO_CODE = "a configuration cannot name code; own code comes from installed packages, by entry point"
TOO_DEEP = "references are nested too deeply; write the value itself"
ONE_LINE = "a setting is one line, without control characters"
NO_SECRET = "settings are saved with the run; give a secret by the environment"
HYDRA_KEYS = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.mode")
"""Hydra's own settings that may be given."""
NEEDED = {*(group for group, about in GROUPS.items() if about.needed), "seed"}
"""Sections of every configuration."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Line endings, and terminal control characters."""
SECRET = re.compile(r"(^|[._])(api_?key|credentials?|passw(or)?d|secret|token)s?$", re.IGNORECASE)
LEAST_SECRET = 5  # Characters; shorter values are in many words
WORD = re.compile(r"[\w-]+")
FOREIGN = re.compile(r"hydra(?!/(sweeper|launcher)\b)")  # In a list of defaults


def resolve(config: DictConfig) -> dict[str, Any]:
    """Our part of the configuration as plain data, all references resolved."""
    plain: dict[str, Any] = {}
    try:
        for key, value in config.items():
            if key in (*GROUPS, "stage") and not OmegaConf.is_dict(value):
                raise ValueError(f"{key} holds options by name, not {value}")
            if key in SECTIONS and OmegaConf.is_config(value):
                plain[key] = OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
            elif key in SECTIONS:
                plain[key] = value
            elif key != "hydra":
                raise ValueError(f"unknown key {key!r}; known are {', '.join(SECTIONS)}")
        if missing := sorted(NEEDED - plain.keys()):
            raise ValueError(
                f"{missing[0]} is missing: the chosen file sets something else: give it no "
                "other '# @package', and a name"
            )
    except OmegaConfBaseException as error:
        raise ValueError(unresolved(error)) from None
    texts = list(_texts(plain))
    for name, value in os.environ.items():
        if is_secret(name) and len(value) >= LEAST_SECRET and any(value in text for text in texts):
            raise ValueError(f"a setting holds the value of the environment variable {name}: {NO_SECRET}")
    return plain


def _texts(node: Any) -> Iterator[str]:
    """The values that are texts: a variable that is ``false`` is no secret among true and false."""
    if isinstance(node, Mapping | list):
        for value in node.values() if isinstance(node, Mapping) else node:
            yield from _texts(value)
    elif not isinstance(node, int | float | None):
        yield str(node)


def unresolved(error: OmegaConfBaseException) -> str:
    """An error message for a missing value or a reference to a missing key."""
    if name := _unset(error):
        # The error may name a key that only refers to the one with the variable.
        default = f"${{oc.env:{name},DEFAULT}}"
        return f"the environment variable {name} is not set: set it, or give a default by {default}"
    message, key = str(error).splitlines()[0], error.full_key
    if "RecursionError" in message:
        return f"{key or 'the configuration'}: {TOO_DEEP}"
    remedy = "give" if isinstance(error, MissingMandatoryValue) else "set that, or give"
    return f"{key}: {message}; {remedy} a value by {key}=VALUE"


def _unset(error: BaseException | None) -> str:
    """The environment variable that ``oc.env`` did not find, if that caused the error; else empty."""
    while error:
        if isinstance(error, KeyError) and str(error.args[0]).startswith("Environment variable"):
            return str(error).split("'")[1]
        error = error.__context__
    return ""


def refuse_hydra(place: str) -> ValueError:
    """The error for one of Hydra's own settings or plugins that has no effect here."""
    if "hydra.job.chdir" in place:
        return ValueError(
            f"{place}: jobs run where the command is typed, so that relative paths mean the same to each; "
            "the files of a run are in its own folder below out="
        )
    return ValueError(
        f"{place}: of Hydra's settings only {', '.join(HYDRA_KEYS)}, and hydra/sweeper and hydra/launcher "
        f"with theirs, can be given, because some others name code: {NO_CODE}"
    )


def refuse_code(node: Any, path: str = "") -> None:
    """Refuse keys that make Hydra call code, secrets, texts of several lines, and values outside JSON."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in CODE:
                raise ValueError(f"{path}{key}: {NO_CODE}")
            if not isinstance(key, str):
                raise ValueError(f"{path}{key}: a key is a word, not {key!r}")
            if is_secret(key, value):
                raise ValueError(f"{path}{key}: {NO_SECRET}")
            refuse_code(value, f"{path}{key}.")
    elif isinstance(node, list):
        for value in node:
            refuse_code(value, path)
    elif isinstance(node, str):
        if CONTROL.search(node):
            raise ValueError(f"{path[:-1]}={shortened(repr(node))}: {ONE_LINE}")
    elif not isinstance(node, int | float | None):
        raise ValueError(f"{path[:-1]}: {node!r} is neither a number nor a text, true, false or null")


def is_secret(key: str, value: Any = "") -> bool:
    """Whether ``value`` of ``key`` is a secret; how many tokens there are, or whether, is none."""
    found = SECRET.search(key)
    return found is not None and not (found[2].lower() == "token" and isinstance(value, int | float | None))


def check_file(folder: Path, name: str, ours: Path) -> set[str]:
    """The words of the defaults in a file of ``folder`` beside ``ours``; a ValueError says what is wrong."""
    path = folder / name
    try:
        text = path.read_text(encoding="utf-8")
        loaded = yaml.safe_load(text)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())[:200]}") from None
    group, _, stem = name.removesuffix(".yaml").rpartition("/")
    if (ours / name).is_file():
        is_taken = (ours / name).read_text(encoding="utf-8") != text
    else:
        is_taken = group in GROUPS and stem in choices(group)
    if is_taken:
        raise ValueError(f"{path}: there is a {name[:-5]} already; give it another name")
    content = loaded if isinstance(loaded, dict) else {}
    for setting in _of_hydra(content):
        raise refuse_hydra(f"{path}: {setting}")
    return set(WORD.findall(str(content.get("defaults"))))


def _of_hydra(content: dict[Any, Any]) -> Iterator[str]:
    """Hydra's own settings in a file that have no effect here, extend its search path or name code."""
    lines = content.get("defaults")
    yield from (str(line) for line in (lines if isinstance(lines, list) else []) if FOREIGN.search(str(line)))
    own = content.get("hydra", {})
    for key, below in own.items() if isinstance(own, dict) else [("", own)]:
        for name in below if isinstance(below, dict) else [""]:
            setting = ".".join(filter(None, ("hydra", str(key), str(name))))
            if setting not in HYDRA_KEYS and (key not in ("sweeper", "launcher") or str(name) in CALLED):
                yield setting
