"""A sweeper or launcher of Hydra's in front of our jobs: every trial is one run, as by ``cnnpool train``."""

import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cnnpool.launch.compose import Request, jobs_of, note
from cnnpool.launch.errors import explain
from cnnpool.launch.hydra_compose import opened
from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.overrides import PLUGINS, parse
from cnnpool.launch.run_job import run
from cnnpool.quantity import find, numbers
from cnnpool.run_folder import layout, results
from cnnpool.system.next_command import next_lines
from cnnpool.system.process import importing
from cnnpool.system.progress import Progress
from cnnpool.system.signals import Signals, Stopped

QUIET = ("hydra.output_subdir=null", "hydra/job_logging=none", "hydra.sweep.subdir=.")
"""A run's folder is made by the run, which writes all that is in it."""
LOOK_S = 0.5
"""Seconds between two looks at a run of another process."""


class Mistake(BaseException):
    """Invalid settings; not an Exception, so that the sweeper ends instead of counting a failed trial."""


class Failed(RuntimeError):
    """The run of a trial failed, as the trial has said."""


def run_plugins(request: Request) -> int:
    """Let the sweeper and launcher that ``request`` chooses run its trials; returns the exit status.

    The objective is the number at ``objective`` in a run's ``results.json``; an Optuna that is told no
    direction gets the better one of that number. Optuna's samplers are seeded, so that the same command makes
    the same trials, and those that have finished are read.
    """
    overrides = parse(request.overrides)
    hydras = [one for one in overrides if one.is_hydra_override()]
    ours = [one for one in overrides if not one.is_hydra_override()]
    with opened(request.config_name, request.config_dir) as composer:
        lines = [*composer.lines([*ours, *hydras]), *QUIET]
        whole, hydra = composer.sweep(overrides), GlobalHydra.instance().hydra
        swept = [one.key_or_group for one in ours if one.is_sweep_override()]
        swept += [key for key in map(str, whole.hydra.sweeper.get("params") or {}) if key not in swept]
    folders = [str(one.input_line) for one in hydras if one.key_or_group.startswith("hydra.sweep.")]
    own = replace(request, overrides=folders, multirun=True, trial=tuple(swept))
    first = jobs_of(replace(own, overrides=[*(str(one.input_line) for one in ours), *folders]))[0]
    objectives = _objectives(first.settings)
    lines += _directed(whole, objectives)
    lines = [line for line in lines if not line.startswith("hydra.sweep.subdir=") or line in QUIET]
    # Outside the block: each trial opens the configuration itself.
    assert hydra is not None
    task = partial(trial, own, tuple(objectives))
    # Optuna's database reports all its plug-ins.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with Signals():
        status = _ended(partial(hydra.multirun, request.config_name, task, lines), ours, whole)
    folder = str(first.settings["out"])
    if status == 0 or any(Path(folder).rglob(layout.RESULTS)):
        sys.stdout.write(f"results: {folder}\n{next_lines(('cnnpool', 'compare', folder))}")
    return status


def _ended(multirun: Callable[[], object], ours: Sequence[Override], whole: DictConfig) -> int:
    """The exit status of ``multirun``; a ValueError for a mistake in what was asked."""
    try:
        multirun()
    except Mistake as mistake:
        raise ValueError(str(mistake)) from None
    except Failed:
        return 1
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ValueError(explain(error, ours)) from error
    except Exception as error:
        chosen = whole.hydra.runtime.choices
        plugins = " ".join(f"{key}={chosen[key]}" for key in PLUGINS if chosen[key] != "basic")
        reason = " ".join([f"{type(error).__name__}:", *str(error).splitlines()[:1]]).removesuffix(":")
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}"
        if os.environ.get("CNNPOOL_TRACEBACK"):
            traceback.print_exc()
        sys.stderr.write(f"error: {plugins} failed: {reason} ({where})\n")
        return 1
    return 0


def trial(request: Request, objectives: Sequence[str], config: DictConfig) -> float | tuple[float, ...]:
    """Run the job that the sweeper asks for, in whatever process the launcher chose."""
    # A sweeper writes Python's None.
    lines = [re.sub("=None$", "=null", line) for line in HydraConfig.get().overrides.task]
    try:
        (job,) = jobs_of(replace(request, overrides=[*lines, *request.overrides]))
    except ValueError as error:
        raise Mistake(str(error)) from None
    outcome = _run(job)
    if outcome.state == "stopped":
        raise Stopped(outcome.status - 128, outcome.message)
    if outcome.state != "done":
        if outcome.status == 2:
            raise Mistake(outcome.message)
        sys.stderr.write(f"error: {job.name}: {outcome.message} (log: {outcome.log})\n")
        raise Failed(outcome.message)
    found = results.read(job.folder)
    values = dict(numbers(found.measured)) if found else {}
    answers = []
    for key in objectives:
        value = values.get(_dotted(key))
        if value is None:
            raise Mistake(f"objective={key}: {job.name} has measured no such number")
        answers.append(float(value))
    shown = ", ".join(f"{key} {value:.6g}" for key, value in zip(objectives, answers, strict=True))
    sys.stdout.write(f"{job.name}   {shown}\n")
    sys.stdout.flush()
    return answers[0] if len(answers) == 1 else tuple(answers)


def _run(job: Job) -> Outcome:
    """Run ``job``, or wait for the process that does: a sampler may propose a point twice at once."""
    outcome = _run_once(job)
    if outcome.in_use:
        note(f"{job.name}: another process trains it: waiting for that")
    while outcome.in_use:
        time.sleep(LOOK_S)
        outcome = _run_once(job)
    return outcome


def _run_once(job: Job) -> Outcome:
    launch = job.settings.get("launch", {}).get("name", "local")
    if launch != "local" or job.devices > 1:
        # Imported late: most trials run in this process.
        from cnnpool.launch.sweep import outcomes_of

        return next(iter(outcomes_of([job])))
    with Signals():
        return run(job, sparse=True)


def _objectives(settings: dict[str, Any]) -> dict[str, str | None]:
    """The objectives, each with its better direction; a ValueError lists what there is."""
    with Progress("loading PyTorch"), importing():
        from cnnpool import probe

    asked = settings["objective"]
    known = probe.declared([probe.build(name, **options) for name, options in settings["probe"].items()])
    found: dict[str, str | None] = {}
    for key in [asked] if isinstance(asked, str) else asked:
        one = find(known, _dotted(key))
        if one is None:
            there = [quantity.tag for quantity in known if not quantity.key.startswith("test.")]
            raise ValueError(f"objective={key}: choose from {', '.join(there)}")
        if _dotted(key).startswith("test."):
            raise ValueError(f"objective={key}: test images judge what was chosen: take val/accuracy")
        found[key] = one.better
    return found


def _dotted(key: str) -> str:
    return key.replace("/", ".")


def _directed(whole: DictConfig, objectives: dict[str, str | None]) -> list[str]:
    """Overrides of Optuna's settings that nobody gave: directions, and the seed of its sampler."""
    sweeper, found = whole.hydra.sweeper, []
    # Optuna's own default is of a type that no file or command line gives.
    if "direction" in sweeper and not isinstance(sweeper.direction, str | ListConfig):
        words = {"higher": "maximize", "lower": "minimize"}
        if None in objectives.values():
            key = next(key for key, better in objectives.items() if better is None)
            raise ValueError(
                f"objective={key} has no better direction: give hydra.sweeper.direction=minimize or maximize"
            )
        ways = [words[str(better)] for better in objectives.values()]
        found.append("hydra.sweeper.direction=" + (ways[0] if len(ways) == 1 else f"[{','.join(ways)}]"))
    if "seed" in (OmegaConf.select(whole, "hydra.sweeper.sampler") or {}) and sweeper.sampler.seed is None:
        found.append("hydra.sweeper.sampler.seed=0")
    return found
