"""Compose configurations with Hydra's API, once for all jobs that differ only in plain values."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from glob import glob
from inspect import Parameter
from pathlib import Path
from typing import Any

from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import ChoiceSweep, Override, OverrideType, Quote, QuotedString
from hydra.types import RunMode
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cnnpool import registry
from cnnpool.choices import network_options
from cnnpool.launch import conf_dir, defaults, names_of
from cnnpool.launch.config import WORD, check_file
from cnnpool.launch.job import FINE_TUNING
from cnnpool.launch.overrides import expanded, is_choice, is_network, line_of, parse
from cnnpool.registry import Option
from cnnpool.schema import GROUPS, choices, options_of

PRIMARY = "train"
FROM_PACKAGES = ("callback", "data", "log", "model", "pool", "readout")
"""Choices whose options are given beside their name."""
NAME = re.compile(r"[\w.:]+")  # Of a choice, in a list of them


class Composer:
    """Composes jobs from the folders opened by :func:`opened`; an error is a ValueError of one line."""

    def __init__(self, name: str, further: Path | None = None, own: Path | None = None):
        _offer_signatures()
        self._name, self._own = name, own
        self._files = sorted(glob("**/*.yaml", root_dir=own, recursive=True)) if own else []
        self.names = partial(names_of, more=own)
        folder = QuotedString(f"file://{further}", Quote.single).with_quotes()
        self._search = [f"hydra.searchpath=[{folder}]"] if further else []
        self._kinds: dict[tuple[str, ...], DictConfig] = {}

    def job(self, overrides: Sequence[Override], *, quickly: bool = False) -> DictConfig:
        """The configuration of one job, with Hydra's own settings in ``hydra``.

        With ``model.weights`` and no chosen recipe, ``FINE_TUNING`` applies as if it preceded all other
        overrides. ``quickly`` takes a tenth of the time if only plain values differ from an earlier job; the
        configuration is then valid until the next call, which changes it.
        """
        compose = self._quickly if quickly else self._composed
        config = compose(overrides)
        weights = OmegaConf.select(config, "model.weights", throw_on_resolution_failure=False)
        is_chosen = any(override.key_or_group == "fit" for override in overrides)
        if weights is None or is_chosen or config.hydra.runtime.choices.get("fit") != "default":
            return config
        return compose([*parse([FINE_TUNING]), *overrides])

    def sweep(self, overrides: Sequence[Override]) -> DictConfig:
        """The configuration of a whole sweep, in which values chosen by its jobs may be missing."""
        config = self._composed(overrides, RunMode.MULTIRUN)
        # A sweeper of Hydra's composes its trials itself.
        for key, words in (config.hydra.sweeper.get("params") or {}).items():
            for word in NAME.findall(str(words)):
                self._offer(str(key), word)
        return config

    def _composed(self, overrides: Sequence[Override], mode: RunMode = RunMode.RUN) -> DictConfig:
        lines = self.lines(overrides)
        # As hydra.compose does, which knows no sweeps.
        loader = GlobalHydra.instance().config_loader()
        with self._explained(overrides):
            config = loader.load_configuration(self._name, lines, mode, from_shell=False)
        self._refuse_bad(config.hydra.runtime.choices.values())
        return config

    def _quickly(self, overrides: Sequence[Override]) -> DictConfig:
        plain, rest = _split(overrides)
        kind = (*map(line_of, rest), *(override.key_or_group for override in plain))
        try:
            if kind not in self._kinds:
                self._kinds[kind] = self._composed(rest)
            # Not copied, which would take most of the time: every job of this kind sets these keys again.
            config = self._kinds[kind]
            for override in plain:
                OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
        except (ValueError, OmegaConfBaseException):
            # Compose it again with Hydra alone, for its error message.
            return self._composed(overrides)
        _record(config, overrides)
        return config

    @contextmanager
    def _explained(self, overrides: Sequence[Override]) -> Iterator[None]:
        """Turn every exception into a one-line ValueError, including those of Hydra's dependencies."""
        try:
            yield
        except Exception as error:
            self._refuse_bad(override.value() for override in overrides)
            self._refuse_bad(defaults().values())
            # Imported late: most command lines are right.
            from cnnpool.launch.errors import explain

            raise ValueError(explain(error, overrides)) from error

    def _refuse_bad(self, chosen: Iterable[Any]) -> None:
        """Check the files of the user's folder that ``chosen`` names, and those that a file so named does."""
        words, others = {*WORD.findall(" ".join(map(str, chosen))), self._name}, self._files
        while named := [name for name in others if Path(name).stem in words]:
            others = [name for name in others if name not in named]
            for name in named:
                assert self._own is not None
                words |= check_file(self._own, name, conf_dir())

    def lines(self, overrides: Sequence[Override]) -> list[str]:
        """The lines passed to Hydra, which then finds the choices of installed packages among them."""
        for override in overrides:
            given = override.value()
            given = given.list if isinstance(given, ChoiceSweep) else given
            for word in given if isinstance(given, list) else [given]:
                self._offer(override.key_or_group, word)
        return [*(line for override in overrides for line in expanded(override)), *self._search]

    def _offer(self, group: str, word: Any) -> None:
        """Add an installed package's choice, at its defaults, where Hydra finds no file of its name."""
        if group not in FROM_PACKAGES or not isinstance(word, str):
            return
        entries, package = GROUPS[group].entries, None
        own: dict[str, Any] = {"name": word}
        if word in self.names(group):
            return
        if word in registry.names({}, entries):
            if GROUPS[group].several:
                package, own = f"{group}.{word}", {}
            options = registry.options_of(registry.lookup({}, entries, word))
        elif group == "model" and is_network(word):
            own = {"defaults": ["installed", "_self_"], "arch": word}
            fixed = options_of("model", "installed")
            options = {key: one for key, one in network_options(word).items() if key not in fixed}
        else:
            return
        ConfigStore.instance().store(word, _usual(options) | own, group, package)


def _usual(options: Mapping[str, Option]) -> dict[str, Any]:
    return {k: MISSING if one.default is Parameter.empty else one.default for k, one in options.items()}


def _offer_signatures() -> None:
    """Add our own choices at their signatures' defaults; where a file has the name, as its beginning."""
    store = ConfigStore.instance()
    for group, about in GROUPS.items():
        for name in choices(group):
            begins = (conf_dir() / group / f"{name}.yaml").is_file()
            place = f"signature/{group}" if begins else group
            if store.get_type(f"{place}/{name}.yaml") == ObjectType.NOT_FOUND:
                named = {} if about.several or group in ("fit", "trainer") else {"name": name}
                node = named | _usual(options_of(group, name))
                store.store(name, node, place, f"{group}.{name}" if about.several else None)


@contextmanager
def opened(name: str = PRIMARY, more: Path | None = None) -> Iterator[Composer]:
    """Initialise Hydra with cnnpool's configuration and a user's folder ``more`` beside it."""
    ours, name = conf_dir(), name.removesuffix(".yaml")
    if not re.fullmatch(r"[\w-]+", name):
        raise ValueError(f"--config-name {name}: not the name of a file in conf or in --config-dir")
    own = more and more.absolute()
    first, second = ours, own
    if own is not None:
        if not own.is_dir():
            raise ValueError(f"--config-dir {more}: not found, or not a folder")
        if not (ours / f"{name}.yaml").is_file():
            if not (own / f"{name}.yaml").is_file():
                raise ValueError(f"no {name}.yaml in conf or {own}")
            # Hydra looks for the primary file only in the first folder.
            first, second = own, ours
    with initialize_config_dir(str(first), job_name=PRIMARY, version_base="1.3"):
        yield Composer(name, second, own)


def _split(overrides: Sequence[Override]) -> tuple[list[Override], list[Override]]:
    """(overrides that set an existing key of cnnpool and affect no other override, the rest)."""
    values = [f"{one.key_or_group}." for one in overrides if not is_choice(one.key_or_group)]
    plain: list[Override] = []
    rest: list[Override] = []
    for override in overrides:
        key = f"{override.key_or_group}."
        is_ours = not (override.package or override.is_hydra_override() or is_choice(override.key_or_group))
        is_alone = sum(key.startswith(other) or other.startswith(key) for other in values) == 1
        # A mapping is merged into the existing value.
        is_set = override.type == OverrideType.CHANGE and not isinstance(override.value(), dict)
        (plain if is_ours and is_alone and is_set else rest).append(override)
    return plain, rest


def _record(config: DictConfig, overrides: Sequence[Override]) -> None:
    """Record the job's overrides in the configuration, as Hydra does."""
    lines = [line_of(override) for override in overrides if not override.is_hydra_override()]
    rules = config.hydra.job.config.override_dirname
    excluded = {line_of(override) for override in overrides if override.key_or_group in rules.exclude_keys}
    named = sorted({*lines} - excluded)
    config.hydra.overrides.task = lines
    config.hydra.job.override_dirname = rules.item_sep.join(named).replace("=", rules.kv_sep)
