"""Completion in bash, zsh and fish, by argcomplete, before anything heavy is imported."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import argcomplete
import yaml
from argcomplete.shell_integration import shellcode

from cnnpool.cli_parser import Parser
from cnnpool.launch import conf_dir, defaults, names_of
from cnnpool.schema import GROUPS, options_of

SHELLS = ("bash", "zsh", "fish")
PLACES = ("DIR", "FOLDER", "RUNS")
FOLDERS = ("data.root", "out", "hydra.run.dir", "hydra.sweep.dir")
HELP = """\
examples:
  eval "$(cnnpool completion bash)"                                   (in ~/.bashrc)
  eval "$(cnnpool completion zsh)"                                    (in ~/.zshrc, after compinit)
  cnnpool completion fish > ~/.config/fish/completions/cnnpool.fish
"""


def parser() -> Parser:
    about = "Print a script by which a shell completes the command lines of cnnpool."
    found = Parser("cnnpool completion", about, HELP)
    found.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS))
    return found


def main(arguments: list[str]) -> int:
    args = parser().parse_args(arguments)
    how = next(line for line in HELP.splitlines() if f" {args.shell}" in line)
    # zsh needs the first line unchanged.
    first, end, rest = shellcode(["cnnpool"], True, args.shell).partition("\n")
    sys.stdout.write(f"{first}{end}# Load it by {' '.join(how.split())}\n{rest}")
    return 0


def answer(parsers: Mapping[str, Callable[[], Parser]]) -> NoReturn:
    """Print the completions of the shell's line by the ``parsers`` of the commands, and end the process."""
    top = argparse.ArgumentParser(prog="cnnpool")
    top.add_argument("--version", action="store_true")
    commands = top.add_subparsers()
    line = os.environ.get("COMP_LINE", "").split()
    for name, make in parsers.items():
        # Only the command typed already has arguments to complete.
        parents = [make()] if name in line[1:2] else []
        commands.add_parser(name, parents=parents, add_help=False, conflict_handler="resolve")
    argcomplete.autocomplete(top, default_completer=complete, always_complete_options=False)  # type: ignore[arg-type]
    sys.exit(0)


def complete(
    prefix: str, action: argparse.Action, parsed_args: argparse.Namespace, **other: object
) -> Iterable[str]:
    """Complete KEY=VALUE, a flag's values, or folders, as argcomplete asks."""
    kind = str(action.metavar)
    if kind == "KEY=VALUE" and action.dest == "overrides":
        return _overrides(prefix, parsed_args)
    if action.dest == "words":
        return _explained(prefix, parsed_args)
    if action.dest == "swap":
        return [*names_of("pool"), *names_of("readout")]
    if action.dest == "data":
        return names_of("data")
    if kind in PLACES:
        return _paths(prefix, folders=True)
    return _paths(prefix) if kind in ("FILE", "MODEL") else []


def _overrides(prefix: str, parsed_args: argparse.Namespace) -> list[str]:
    """Completions of KEY=VALUE: the key up to the next dot, or the last of several values."""
    keys = keys_of(getattr(parsed_args, "overrides", None) or [], getattr(parsed_args, "config_dir", None))
    key, is_whole, value = prefix.partition("=")
    if is_whole:
        start, comma, last = value.rpartition(",")
        values = keys.get(key)
        ends = _paths(last, folders=True) if values is None else values
        return [f"{key}={start}{comma}{one}" for one in ends]
    found = set()
    for known in keys:
        if known.startswith(prefix):
            # A group is both a choice and a prefix of keys, so neither is completed with a space.
            group, dot, _ = known.partition(".")
            is_group = dot and group in keys and "." not in prefix
            found.add(f"{group}." if is_group else f"{known}=")
    return sorted(found)


def _explained(prefix: str, parsed_args: argparse.Namespace) -> list[str]:
    key, is_whole, _ = prefix.partition("=")
    if is_whole and key in ("pool", "readout"):
        return [f"{key}={name}" for name in names_of(key)]
    words = getattr(parsed_args, "words", None) or []
    of_room = [word.partition("=")[2] for word in words if word.partition("=")[0] in ("pool", "readout")]
    named = of_room or [word for word in words if "=" not in word]
    if not named:
        return [name for group in ("pool", "readout") for name in names_of(group) if name != "keep"]
    is_pool = named[0] in names_of("pool") and f"readout={named[0]}" not in words
    group = "pool" if is_pool else "readout"
    if named[0] not in names_of(group):
        return []
    options = keys_of([f"{group}={named[0]}"], None)
    found = [word.removeprefix(f"{group}.") for word in options if word.startswith(f"{group}.")]
    if is_whole:
        return [f"{key}={value}" for value in options.get(f"{group}.{key}") or ()]
    return [f"{word}=" for word in found]


def _paths(prefix: str, folders: bool = False) -> list[str]:
    place, _, start = prefix.rpartition("/")
    root = Path(place or ("/" if prefix.startswith("/") else ".")).expanduser()
    before = prefix[: len(prefix) - len(start)]
    try:
        found = [one for one in root.iterdir() if one.name.startswith(start)]
    except OSError:
        return []
    shown = [one for one in found if start.startswith(".") or not one.name.startswith(".")]
    return sorted(f"{before}{one.name}{'/' * one.is_dir()}" for one in shown if one.is_dir() or not folders)


def keys_of(overrides: Iterable[str], more: Path | None = None) -> dict[str, list[str] | None]:
    """Key -> its values, empty if not to be listed, None for a folder; ``more`` has the user's choices."""
    chosen = defaults() | dict(override.partition("=")[::2] for override in overrides)
    stages = [key for key in chosen if key.startswith("pool@")]
    found: dict[str, list[str] | None] = {key: names_of(key, more) for key in (*GROUPS, "experiment")}
    found |= {key: [*names_of("pool", more), "inherit"] for key in stages}
    found["seed"] = []
    for key in (*GROUPS, *stages):
        group, where = key.partition("@")[0], key.removeprefix("pool@")
        for name in chosen.get(key, "").split(","):
            for entry, place in [(name, where)] if group != "probe" else _probes(name):
                # The options of an installed package are unknown until it is imported.
                with suppress(KeyError):
                    options = options_of(group, entry)
                    found |= {f"{place}.{option}": list(one.choices) for option, one in options.items()}
    return found | dict.fromkeys(FOLDERS)


def _probes(name: str) -> list[tuple[str, str]]:
    """(name, place on the command line) of each probe in a file of ``conf/probe``."""
    path = conf_dir() / "probe" / f"{name}.yaml"
    content = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.is_file() else {}
    return [(probe, f"probe.{probe}") for probe in content]
