"""``cnnpool train --cfg`` and ``--info``: the composed configuration, and the files it comes from."""

import logging
import sys

from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cnnpool.launch.compose import Request, name_runs_by, show_to_resolvers
from cnnpool.launch.composer import opened
from cnnpool.launch.config import unresolved
from cnnpool.launch.overrides import parse


def show_configuration(
    request: Request, kind: str, package: str | None = None, resolve: bool = False
) -> None:
    """Print a job's configuration as YAML.

    Args:
        request: the command line.
        kind: job (without Hydra's own settings), hydra (these alone) or all.
        package: only this part, such as ``pool``.
        resolve: follow the references.

    Raises:
        ValueError: if it cannot be composed, or has no such part.
    """
    with opened(request.config_name, request.config_dir) as composer:
        name_runs_by(())
        config = composer.job(parse(request.overrides))
        show_to_resolvers(config)
        try:
            if resolve:
                OmegaConf.resolve(config)
            keys = [str(key) for key in config if kind == "all" or (key == "hydra") == (kind == "hydra")]
            shown = OmegaConf.masked_copy(config, keys)
            part = shown if package in (None, "_global_") else OmegaConf.select(shown, str(package))
        except OmegaConfBaseException as error:
            raise ValueError(unresolved(error)) from None
        if part is None:
            raise ValueError(f"--package {package}: no such part of the configuration")
        header = "" if package is None else f"# @package {package}\n"
        text = header + OmegaConf.to_yaml(part) if OmegaConf.is_config(part) else f"{part}\n"
        sys.stdout.write(text)


def show_composition(request: Request, kind: str) -> None:
    """Print how Hydra composes a job's configuration: ``kind`` as in ``cli_parser.INFO``.

    Raises:
        ValueError: if it cannot be composed.
    """
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    with opened(request.config_name, request.config_dir) as composer:
        name_runs_by(())
        # Raises on errors, where Hydra's own report would end the process.
        composer.job(parse(request.overrides))
        lines = [*request.overrides, *composer.search]
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        try:
            hydra.show_info(kind, config_name=request.config_name, overrides=lines)
        finally:
            root.setLevel(level)
            for handler in set(root.handlers) - set(before):
                root.removeHandler(handler)
