"""Train from Python with the settings of the command line: a run, or its parts for one's own Trainer."""

import json
import logging
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cnnpool import data, training
from cnnpool.launch import check
from cnnpool.launch.compose import Request, jobs_of, show_to_resolvers
from cnnpool.launch.job import Job
from cnnpool.launch.run_job import finished
from cnnpool.recipe import Recipe
from cnnpool.run_folder import layout
from cnnpool.run_folder.folder_lock import held
from cnnpool.run_folder.results import Results
from cnnpool.system.process import rank

if TYPE_CHECKING:
    from cnnpool.fit import Classifier, Images

log = logging.getLogger(__name__)

LIGHTNING = ("", ".fabric", ".pytorch", ".pytorch.profilers.profiler", ".pytorch.callbacks.model_summary")
LOGGERS = ("cnnpool", *(f"lightning{name}" for name in LIGHTNING))  # Those that a training configures


def train(*overrides: str) -> Results:
    """Train like ``cnnpool train`` with these overrides, KEY=VALUE, and return the run's results.

    A stopped run resumes; the results of a finished run are read. Threads, deterministic
    mode, the CPU's random generators, signal handlers and logging are restored afterwards. For each further
    device Lightning starts the script again; such a process trains with the first and ends here.

    Raises:
        ValueError: for an invalid argument, in one line.
        DivergedError: if the loss is no longer finite.
        OccupiedError: if the run's folder holds another run.
    """
    job = _job(overrides)
    check.check(job.settings)
    recipe = Recipe(**job.settings["fit"])
    if (found := finished(job)) is not None:
        return found
    assists = rank() > 0
    with _as_found(), nullcontext() if assists else held(job.folder):
        if not assists:
            layout.begin(job.folder)
        logger = check.log_of(job.settings)
        results = training.train(job.settings, recipe, job.folder, job.name, job.overrides, logger)
    if results is None:
        sys.exit()
    return results


def load(path: str | Path) -> "Classifier":
    """The trained classifier of a run's folder (its last weights) or of a checkpoint, in evaluation mode.

    Raises:
        DamagedError: if the file is missing or damaged.
        ValueError: if it was written by an earlier version.
    """
    from cnnpool.fit import Classifier

    path = Path(path)
    return Classifier.load_from_checkpoint(path / layout.CHECKPOINTS / layout.LAST if path.is_dir() else path)


def datamodule(name: str, *, seed: int = 0, **options: Any) -> "Images":
    """The images of the data set ``name``, as ``cnnpool train data=NAME seed=SEED`` uses them.

    ``options`` are those of the data set, such as ``batch_size=128`` or ``root="data"``.

    Raises:
        ValueError: for an unknown name or option, or a value out of range.
        DataError: if the files are missing, damaged or inconsistent.
    """
    from cnnpool.fit import Images

    given = (f"data.{key}={json.dumps(value, default=str)}" for key, value in options.items())
    # Composed for required options, and used unparsed: Hydra's parser changes some characters.
    chosen = _job([f"data={name}", *given]).settings["data"] | options
    return Images(data.build(**chosen, seed=seed))


def classifier(*overrides: str, seed: int = 0) -> "Classifier":
    """The untrained classifier of ``cnnpool train`` with these overrides, for one's own Trainer.

    Its images are read once, for their size, classes and normalisation; ``seed`` is that of the weights and
    of all random draws. A ValueError of one line for an invalid argument.
    """
    job = _job([*overrides, f"seed={seed}"])
    check.check(job.settings)
    with _as_found():
        return training.parts(job.settings, Recipe(**job.settings["fit"])).classifier


def _job(overrides: Any) -> Job:
    (job,) = jobs_of(Request(list(overrides)))
    # Lightning would add Hydra's options to the command with which it starts the script for further devices.
    show_to_resolvers(None)
    if job.mistake:
        raise ValueError(job.mistake)
    if job.on_recipe:
        log.info("%s", job.on_recipe)
    return job


@contextmanager
def _as_found() -> Iterator[None]:
    """Restore the process-wide state that a training changes."""
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    cudnn = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    drawn = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    loggers = [logging.getLogger(name) for name in LOGGERS]
    said = [(one.level, one.propagate, one.handlers[:]) for one in loggers]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = cudnn
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
        torch.random.set_rng_state(drawn[2])
        if workspace is None:
            os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
        for logger, (level, propagate, handlers) in zip(loggers, said, strict=True):
            logger.setLevel(level)
            logger.propagate, logger.handlers[:] = propagate, handlers
