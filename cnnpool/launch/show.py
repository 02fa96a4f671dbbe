"""``cnnpool train --help``, ``--cfg`` and ``--info``: available choices and options, and composition."""

import logging
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cnnpool.cli_parser import train_parser
from cnnpool.launch.check import choices_in
from cnnpool.launch.compose import Request, name_runs_by, show_to_resolvers, single
from cnnpool.launch.config import unresolved
from cnnpool.launch.hydra_compose import opened
from cnnpool.registry import Option
from cnnpool.schema import GROUPS, OWN, SECTIONS, options_of

WIDTH, COLUMN = 100, 34
AT_ONE_STAGE = "the same for stage s2 alone, or inherit; its options are stage.s2.KEY=VALUE"
CLOSING = """\
examples:
  cnnpool train data=mnist pool=max
  cnnpool train pool=max pool.kernel_size=3 pool.ties=split
  cnnpool train pool=blur pool@stage.s2=avg stage.s2.kernel_size=3
  cnnpool train readout=gap fit=smoke
  cnnpool train -m pool=max,avg,strided seed=0,1,2,3,4
  cnnpool train pool=lp --help              (the keys of another choice)
  cnnpool train pool=max --cfg job          (print the configuration, run nothing)

exit status:
  0 done, 1 a run failed, 2 a mistake in what was asked, 128 + the signal when stopped
  (130: Ctrl-C, 143: SIGTERM)
"""


def show_help(request: Request) -> None:
    """Print the help of ``cnnpool train`` with the choices of ``request``."""
    with opened(request.config_name, request.config_dir) as composer:
        config = composer.job(single(composer, request))
        names = {key: composer.names(key) for key in SECTIONS}
    choices = [_line(f"{key}=", ", ".join(found), 14) for key, found in names.items() if found]
    chosen = config.hydra.runtime.choices
    named = textwrap.fill(
        " ".join(f"{key}={chosen[key]}" for key in SECTIONS if chosen.get(key)),
        WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
    )
    sys.stdout.write(
        f"{train_parser().format_help()}\n"
        f"choices (KEY=NAME):\n{''.join(choices)}"
        f"{_line('pool@stage.s2=', AT_ONE_STAGE, 17)}\n"
        f"settings (KEY=VALUE) with\n{named}\n\n{''.join(_settings(config))}\n{CLOSING}"
    )


def _settings(config: DictConfig) -> Iterator[str]:
    plain = {key: OmegaConf.to_container(config[key], resolve=True) for key in GROUPS if key in config}
    for group, place, options in choices_in(plain):
        yield from _group(place, options, _described(group, str(options.get("name", ""))))
    yield from _group("", {key: config[key] for key in OWN}, OWN)


def _described(group: str, name: str) -> Mapping[str, Option]:
    try:
        return options_of(group, name)
    except KeyError:
        # An option of an installed package, which is not imported for help.
        return {}


def _group(where: str, values: Mapping[Any, Any], described: Mapping[str, Option]) -> Iterator[str]:
    for key, value in values.items():
        if key == "name":
            continue
        text, legal = "", ""
        if key in described:
            text = described[key].text.replace("``", "").removesuffix(".")
            legal = f"({described[key].words.replace('a whole number from', 'whole from', 1)})"
        shown = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n...\n").strip()
        path = f"{where}.{key}" if where else key
        yield _line(f"{path}={shown}", f"{text} {legal}".strip())


def _line(left: str, right: str, column: int = COLUMN) -> str:
    """``left``, and from the given column on ``right``, with its further lines indented."""
    indent = " " * column
    lines = textwrap.wrap(right, WIDTH, initial_indent=indent, subsequent_indent=indent) or [indent]
    start = f"  {left}"
    if len(start) < column:
        lines[0] = start + lines[0][len(start) :]
    else:
        lines.insert(0, start)
    return "\n".join(lines).rstrip() + "\n"


def show_configuration(
    request: Request, kind: str, package: str | None = None, resolve: bool = False
) -> None:
    """Print a job's configuration as YAML without Hydra's own settings (job), these alone (hydra), or all."""
    with opened(request.config_name, request.config_dir) as composer:
        name_runs_by(())
        config = composer.job(single(composer, request))
        show_to_resolvers(config)
        try:
            if resolve:
                OmegaConf.resolve(config)
            keys = [str(key) for key in config if kind == "all" or (key == "hydra") == (kind == "hydra")]
            shown = OmegaConf.masked_copy(config, keys)
            is_whole = package in (None, "_global_")
            part = shown if is_whole else OmegaConf.select(shown, str(package), default=...)
        except OmegaConfBaseException as error:
            raise ValueError(unresolved(error)) from None
        if part is ...:
            raise ValueError(f"--package {package}: no such part of the configuration")
        header = "" if package is None else f"# @package {package}\n"
        plain = f"{'null' if part is None else part}\n"
        text = header + OmegaConf.to_yaml(part) if OmegaConf.is_config(part) else plain
        sys.stdout.write(text)


def show_composition(request: Request, kind: str) -> None:
    """Print how Hydra composes a job's configuration: ``kind`` as in ``cli_parser.INFO``."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    with opened(request.config_name, request.config_dir) as composer:
        name_runs_by(())
        # Raises on errors, whereas Hydra's own report would end the process.
        composed = composer.job(single(composer, request)).hydra.overrides
        lines = [*composed.hydra, *composed.task]
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        try:
            hydra.show_info(kind, config_name=request.config_name, overrides=lines)
        finally:
            root.setLevel(level)
            for handler in set(root.handlers) - set(before):
                root.removeHandler(handler)
