"""Compose the jobs of a ``cnnpool train`` command line."""

import math
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import is_not
from pathlib import Path
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cnnpool.cli_parser import MOST_JOBS
from cnnpool.launch.check import check, refuse_left_out
from cnnpool.launch.config import refuse_code, resolve, unresolved
from cnnpool.launch.folders import distinct, is_harmless, run_name
from cnnpool.launch.hydra_compose import PRIMARY, Composer, opened
from cnnpool.launch.job import Job
from cnnpool.launch.overrides import PLUGINS, alternatives, is_choice, is_plugin, line_of, parse
from cnnpool.system.progress import Progress

COUNTED = 32
"""Report progress when composing at least this many jobs."""
OF_RUNS, OF_SWEEPS = ("hydra.run.dir",), ("hydra.sweep.dir", "hydra.sweep.subdir")


@dataclass(frozen=True)
class Request:
    """A command line of ``cnnpool train``: KEY=VALUE as typed, and the options before them."""

    overrides: Sequence[str] = ()
    multirun: bool = False
    config_dir: Path | None = None
    config_name: str = PRIMARY
    most_jobs: int = MOST_JOBS
    trial: tuple[str, ...] | None = None  # A trial of a sweeper of Hydra's: the keys in which trials differ


class PluginChosen(ValueError):
    """A sweeper or launcher of Hydra's is chosen, which runs the jobs itself."""


def jobs_of(request: Request) -> list[Job]:
    """The jobs of a command line; a ValueError, before anything is created, says what is wrong with it."""
    overrides = parse(request.overrides)
    with opened(request.config_name, request.config_dir) as composer:
        name_runs_by(())
        swept = [override for override in overrides if override.is_sweep_override()]
        if not request.multirun and not swept:
            config = composer.job(overrides)
            if config.hydra.mode != RunMode.MULTIRUN:
                if plugin := next((line_of(one) for one in overrides if is_plugin(one.key_or_group)), None):
                    raise ValueError(f"{plugin}: is for sweeps, by -m: cnnpool train -m {plugin}")
                _refuse(overrides, OF_SWEEPS, "is for sweeps, by -m; a single run's folder is hydra.run.dir")
                return _launched([_job(config)], overrides)
        whole = composer.sweep([_first(composer, override) for override in overrides])
        if not request.multirun and whole.hydra.mode != RunMode.MULTIRUN:
            raise ValueError(_no_sweep(swept))
        _refuse(overrides, OF_RUNS, "is for a single run; the folder of a sweep is out, or hydra.sweep.dir")
        chosen = whole.hydra.runtime.choices
        if request.trial is None and (plugin := next((k for k in PLUGINS if chosen[k] != "basic"), None)):
            raise PluginChosen(f"{plugin}={chosen[plugin]} is for cnnpool train -m")
        axes = _axes(composer, request, overrides, whole)
        return _launched(_sweep(composer, whole, axes, request.trial or ()), overrides)


def single(composer: Composer, request: Request) -> list[Override]:
    """The overrides of one job, a sweep's first; a ValueError for several values without -m."""
    overrides = parse(request.overrides)
    swept = [override for override in overrides if override.is_sweep_override()]
    if swept and not request.multirun:
        raise ValueError(_no_sweep(swept))
    return _firsts(composer, overrides)


def _launched(jobs: list[Job], overrides: Sequence[Override]) -> list[Job]:
    """``jobs``, unless a file names their cluster: the two exchange code."""
    given = any(override.key_or_group == "launch.address" for override in overrides)
    addresses = (job.settings.get("launch", {}).get("address") for job in jobs)
    if not given and (address := next(filter(None, addresses), None)):
        raise ValueError(
            f"launch.address={address}: a cluster's address comes from the command line or RAY_ADDRESS, "
            "not from a file"
        )
    return jobs


def _first(composer: Composer, override: Override) -> Override:
    """``override``, or the first value of a swept choice, whose options may be given beside it."""
    key = override.key_or_group
    if override.is_sweep_override() and is_choice(key) and key != "experiment":
        return alternatives(override, composer.names, 1)[0]
    return override


def _firsts(composer: Composer, overrides: Iterable[Override]) -> list[Override]:
    """``overrides`` with the first value of swept choices, and without other swept keys."""
    firsts = [_first(composer, override) for override in overrides]
    return [override for override in firsts if not override.is_sweep_override()]


def _refuse(overrides: Iterable[Override], keys: Collection[str], remedy: str) -> None:
    for override in overrides:
        if override.key_or_group in keys:
            raise ValueError(f"{override.input_line}: {remedy}")


def _no_sweep(swept: Sequence[Override]) -> str:
    words = " ".join(map(line_of, swept))
    return (
        f"{words}: several values make a sweep, by -m: cnnpool train -m {words}; "
        "or quote the value: key='a,b'"
    )


def _axes(
    composer: Composer, request: Request, overrides: Sequence[Override], whole: DictConfig
) -> list[list[Override]]:
    """The values of every key of a sweep, including those from an experiment's file."""
    brought: DictConfig = whole.hydra.sweeper.params or OmegaConf.create()
    lines = [f"{key!s}={value}" for key, value in brought.items()]
    given, most = parse([*lines, *map(line_of, overrides)]), request.most_jobs
    if request.trial is not None:
        # The sweeper chooses among the others.
        given = _firsts(composer, given)
    axes = [alternatives(override, composer.names, most + 1) for override in given]
    count = math.prod(map(len, axes))
    if count > most:
        sizes = " x ".join(f"{axis[0].get_key_element()}: {len(axis)}" for axis in axes if len(axis) > 1)
        raise ValueError(
            f"this sweep has at least {count} jobs ({sizes}), and more than {most} are probably a mistake: "
            f"name fewer values, or allow them by --max-jobs {count}"
        )
    return axes


def _sweep(
    composer: Composer, whole: DictConfig, axes: Sequence[Sequence[Override]], swept: Sequence[str]
) -> list[Job]:
    keys = [axis[0].key_or_group for axis in axes if len({line_of(one) for one in axis}) > 1]
    keys += swept
    name_runs_by(keys)
    for key in () if swept else filter(is_harmless, keys):
        note(f"{key} differs between the jobs, so it is part of their folders' names")
    try:
        # Resolved once, so that all jobs share its time stamp.
        str(whole.hydra.sweep.dir)
    except OmegaConfBaseException as error:
        raise ValueError(unresolved(error)) from None
    jobs: dict[int, Job] = {}
    count = math.prod(map(len, axes))
    usual = [axis[0] for axis in axes]
    # First those that differ from the first in a single value: a mistake in any value ends the sweep soon.
    ordered = sorted(enumerate(product(*axes)), key=lambda one: sum(map(is_not, one[1], usual)) > 1)
    # Composing a few jobs is slow only on a busy machine.
    with Progress("composing", count, "jobs", silent_s=None if count >= COUNTED else 60.0) as progress:
        for number, chosen in ordered:
            config = composer.job(chosen, quickly=True)
            if config.hydra.sweeper.params != whole.hydra.sweeper.params:
                name = config.hydra.runtime.choices.experiment
                raise ValueError(f"experiment={name} is a separate sweep: run it by a separate command")
            OmegaConf.copy_cache(whole, config)
            jobs[number] = _job(config, number)
            progress.step()
    different = distinct(jobs[number] for number in range(count))
    if len(different) < len(jobs):
        note(f"{len(jobs) - len(different)} of {len(jobs)} jobs repeat others and are left out")
    return different


def _job(config: DictConfig, number: int | None = None) -> Job:
    hydra, sweep = config.hydra, number is not None
    show_to_resolvers(config)
    if sweep:
        hydra.mode, hydra.job.num, hydra.job.id = RunMode.MULTIRUN, number, str(number)
    try:
        folder = Path(hydra.sweep.dir, hydra.sweep.subdir) if sweep else Path(hydra.run.dir)
    except OmegaConfBaseException as error:
        raise ValueError(unresolved(error)) from None
    folder = Path(os.path.abspath(folder))
    hydra.runtime.output_dir = str(folder)
    settings = resolve(config)
    refuse_code(settings)
    refuse_code(str(folder), "hydra.sweep.dir." if sweep else "hydra.run.dir.")
    check(settings)
    refuse_left_out(hydra.overrides.task, settings)
    return Job(folder, list(hydra.overrides.task), settings, sweep)


def name_runs_by(keys: Collection[str]) -> None:
    """Let ``${run_name:}`` in a configuration be a run's name, which includes differences in ``keys``.

    ``${norm_of_model:}`` is the normalisation after the model's convolutions.
    """
    OmegaConf.register_new_resolver("run_name", partial(_run_name, keys), replace=True)
    OmegaConf.register_new_resolver("norm_of_model", norm_of_model, replace=True)


def _run_name(swept: Collection[str], *, _root_: DictConfig) -> str:
    hydra = _root_.hydra
    return run_name(_root_, hydra.runtime.choices, hydra.overrides.task, swept)


def norm_of_model(*, _root_: DictConfig) -> str:
    """``none`` if the model's option ``norm`` says so, else ``batch``.

    An operator with convolutions uses it by default: without normalisation in a network that normalises, it
    would lose for an unrelated reason.
    """
    return "none" if OmegaConf.select(_root_, "model.norm", default=True) in (False, "none") else "batch"


def show_to_resolvers(config: DictConfig | None) -> None:
    """Let ``${hydra:...}`` in a configuration refer to ``config``, including later changes in it."""
    cast(Any, HydraConfig.instance()).cfg = config


def note(text: str) -> None:
    """Write a line of information to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
