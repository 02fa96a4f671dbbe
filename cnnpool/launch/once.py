"""Hydra composes a job to look at it, and again to use it; here what was looked at is used."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.plugins.sweeper import Sweeper
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf


@contextmanager
def each_once() -> Iterator[None]:
    """Within this context every job is composed once: it takes a tenth of a second.

    Hydra itself composes a command line to see its mode, run or multirun, and a sweep's jobs to check them.
    """
    whole, whole_sweep = ConfigLoaderImpl.load_configuration, ConfigLoaderImpl.load_sweep_config
    validate = Sweeper.validate_batch_is_legal
    seen: dict[str, Any] = {}
    checked: defaultdict[tuple[str, ...], list[DictConfig]] = defaultdict(list)

    def load(
        loader: ConfigLoaderImpl,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        if validate_sweep_overrides and seen:
            config, same = seen.pop("config"), seen.pop("overrides")
            mode = [f"hydra.mode={run_mode.name}"]
            if overrides in (same, [*same, *mode]) and _complete(config, run_mode):
                parsed = OverridesParser.create().parse_overrides(overrides)
                loader.validate_sweep_overrides_legal(parsed, run_mode, from_shell)
                if overrides != same:
                    config.hydra.mode = run_mode
                    config.hydra.overrides.hydra += mode
                return config
        config = whole(loader, config_name, overrides, run_mode, from_shell, validate_sweep_overrides)
        if not validate_sweep_overrides:
            seen.update(config=config, overrides=list(overrides))
        return config

    def check(sweeper: Sweeper, batch: Sequence[Sequence[str]]) -> None:
        loader = sweeper.hydra_context.config_loader
        for overrides in map(list, batch):
            checked[tuple(overrides)].append(loader.load_sweep_config(sweeper.config, overrides))

    def load_sweep(
        loader: ConfigLoaderImpl, master_config: DictConfig, sweep_overrides: list[str]
    ) -> DictConfig:
        # Each is handed out once: who launches it closes it.
        kept = checked[tuple(sweep_overrides)]
        return kept.pop() if kept else whole_sweep(loader, master_config, sweep_overrides)

    ConfigLoaderImpl.load_configuration, ConfigLoaderImpl.load_sweep_config = load, load_sweep
    Sweeper.validate_batch_is_legal = check
    try:
        yield
    finally:
        ConfigLoaderImpl.load_configuration, ConfigLoaderImpl.load_sweep_config = whole, whole_sweep
        Sweeper.validate_batch_is_legal = validate


def _complete(config: DictConfig, run_mode: RunMode) -> bool:
    # A sweep may choose what the command line leaves open.
    choices = OmegaConf.to_container(config.hydra.runtime.choices)
    return run_mode == RunMode.MULTIRUN or "???" not in choices.values()
