"""Train from Python with the settings of the command line: a run, or its parts for your own Trainer."""

import copy
import json
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.utils import JobRuntime
from hydra.version import VersionBase
from torch import nn

from cnnpool import data, pool, readout, registry, training
from cnnpool.as_found import generators_kept
from cnnpool.data import Source
from cnnpool.launch import names_of
from cnnpool.launch.check import OF_TENSORS, loggers_of
from cnnpool.launch.compose import Request, jobs_of, show_to_resolvers
from cnnpool.launch.job import Job
from cnnpool.launch.overrides import PATHS, parse
from cnnpool.launch.run_job import begin, catch_up, finished, late_logs, look_again, note_end
from cnnpool.published.weights import Weights
from cnnpool.run_folder import layout, status
from cnnpool.run_folder.folder_lock import held
from cnnpool.run_folder.identity import digest
from cnnpool.run_folder.results import Results, weights
from cnnpool.system.process import rank
from cnnpool.system.signals import Stopped

if TYPE_CHECKING:
    from cnnpool.fit import Callback, Classifier, Images, Logger

log = logging.getLogger(__name__)

OWN: dict[str, tuple[Mapping[str, Any], str]] = {
    "data": (data.DATASETS, "datasets"),
    "model": ({}, "networks"),
    "pool": (pool.OPERATORS, "operators"),
    "readout": (readout.READOUTS, "readouts"),
}
"""Settings that may be a script's own class or function."""
LIGHTNING = ("", ".fabric", ".pytorch", ".pytorch.profilers.profiler", ".pytorch.callbacks.model_summary")
LOGGERS = ("cnnpool", *(f"lightning{name}" for name in LIGHTNING))  # Those that a training configures
PARTS: dict[Path, Sequence[Mapping[str, Any]]] = {}  # Settings of the runs of this process, by folder
COMPOSING, TRAINING = threading.RLock(), threading.RLock()  # Each changes what all threads share


def train(
    *overrides: str | Mapping[str, Any],
    callbacks: Sequence["Callback"] = (),
    loggers: Sequence["Logger"] = (),
    classifier: "type[Classifier] | None" = None,
    **settings: Any,
) -> Results:
    """Train like ``cnnpool train`` with these settings, and return the run's results.

    Settings are overrides, ``"fit.epochs=3"``, or mappings and keyword arguments, ``fit={"epochs": 3}``.
    ``model``, ``data``, ``pool`` and ``readout`` may also be a script's own: a class or function as an
    installed package would bring it, or as ``model`` a module, of which a copy is trained. From other weights
    it is another run.

    Args:
        callbacks: of Lightning, beside those of ``callback=``; their ``state_dict`` must be complete for a
            stopped run to go on exactly. Recorded by their classes' names, without their arguments.
        loggers: of Lightning, beside the run's own record; the training closes them.
        classifier: a subclass of ``cnnpool.fit.Classifier``, recorded by its name.

    A stopped run resumes; the results of a finished run are read, and ``log=`` chosen later gets its history.
    Threads, deterministic mode, the CPU's random generators, signal handlers and logging are restored
    afterwards; one thread trains at a time. For each further device Lightning starts the script again; such a
    process trains with the first and ends here.

    Raises:
        ValueError: for an invalid argument, in one line.
        DivergedError: if the loss is no longer finite.
        OccupiedError: if the run's folder holds another run.
    """
    look_again()
    job = _job([*lines(*overrides, settings)])
    job.settings.update(_recognised_by(job, callbacks, classifier))
    if job.settings["trainer"]["fast_dev_run"]:
        raise ValueError("trainer.fast_dev_run leaves no results: use cnnpool train, or your Trainer's")
    assists, folder = rank() > 0, job.folder.resolve()
    parts = [_apart(one) for one in (*overrides, settings) if not isinstance(one, str)]
    if (found := finished(job)) is not None:
        if not assists and late_logs(job):
            with held(job.folder):
                catch_up(job, found)
        PARTS.setdefault(folder, parts)
        return found
    with TRAINING, _as_found(), nullcontext() if assists else _begun(job):
        chosen = loggers_of(job.settings)
        own = training.Own(callbacks, loggers, classifier)
        results = training.train(job.settings, job.folder, job.name, job.overrides, chosen, own)
    if results is None:
        sys.exit()
    PARTS[folder] = parts
    return results


def load(path: str | Path, *, classifier: "type[Classifier] | None" = None, **own: Any) -> "Classifier":
    """The trained classifier of a run's folder (by ``fit.test``) or of a checkpoint, in evaluation mode.

    ``classifier`` and ``own``, such as ``model=build``, are the script's own parts that :func:`train` had;
    those of a run of this process are known.

    Raises:
        DamagedError: if the file is missing or damaged.
        ValueError: if it was written by an earlier version, or an argument is unknown.
    """
    from cnnpool.fit import Classifier

    path, kind = Path(path).expanduser(), classifier or Classifier
    for key in own:
        registry.refuse_unknown(key, OWN, "cnnpool.load")
    folder = path.resolve() if path.is_dir() else path.resolve().parent.parent
    for _ in lines(*PARTS.get(folder, ()), own):
        pass
    return kind.load_from_checkpoint(weights(path) if path.is_dir() else path)


def datamodule(name: "str | type[Source]", *, seed: int = 0, **options: Any) -> "Images":
    """The images of the data set ``name``, or of a script's own class, as ``cnnpool train`` has them.

    ``options`` are those of the data set, such as ``batch_size=128`` or ``root="data"``.

    Raises:
        ValueError: for an unknown name or option, or a value out of range.
        DataError: if the files are missing, damaged or inconsistent.
    """
    from cnnpool.fit import Images

    if not isinstance(name, str):
        name = offered("data", name)
    options = {key: plain(value, f"data.{key}") for key, value in options.items()}
    given = (f"data.{key}={json.dumps(value, default=str)}" for key, value in options.items())
    # Composed for required options, and used unparsed: Hydra's parser changes some characters.
    chosen = _job([f"data={name}", *given]).settings["data"] | options
    return Images(data.build(**chosen, seed=seed))


def classifier(
    *overrides: str | Mapping[str, Any],
    classifier: "type[Classifier] | None" = None,
    seed: int | None = None,
    **settings: Any,
) -> "Classifier":
    """The untrained classifier of :func:`train` with these settings, for your own Trainer.

    Its images are read once, for their size, classes and normalisation; ``seed`` is that of the weights and
    of all random draws. A ValueError of one line for an invalid argument.
    """
    job = _job([*lines(*overrides, settings), *([] if seed is None else [f"seed={seed}"])])
    with TRAINING, _as_found():
        return training.parts(job.settings, classifier).classifier


def lines(*settings: str | Mapping[str, Any]) -> Iterator[str]:
    """Settings as overrides; a script's own classes, functions and modules among them get a name."""
    for one in settings:
        if isinstance(one, str):
            yield one
            continue
        for key, value in one.items():
            if key in OWN and value is not None and not isinstance(value, str | Mapping):
                entry = copied(value) if isinstance(value, nn.Module) and key == "model" else value
                yield f"{key}={offered(key, entry)}"
            elif isinstance(value, Mapping) and value:
                place = key.partition("@")[2] or key
                for below, inner in value.items():
                    # As in a file, ``name`` is the choice itself.
                    yield from lines({key if below == "name" else f"{place}.{below}": inner})
            else:
                yield f"{key}={typed(plain(value, key))}"


def offered(key: str, entry: Callable[..., Any]) -> str:
    """The name by which ``key`` chooses a script's own class or function from now on."""
    if key == "data" and not callable(entry):
        kind = type(entry).__name__
        raise ValueError(f"data must be a class derived from cnnpool.data.Source, got a {kind}{OF_TENSORS}")
    table, group = OWN[key]
    return registry.offer(table, group, entry, names_of(key))


def typed(value: Any) -> str:
    """A value as on the command line."""
    value = plain(value)
    match value:
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{','.join(map(typed, value))}]"
        case {}:
            return "{}"
    text = str(value)
    is_plain = re.fullmatch(r"[\w.:/+-]+", text) and parse([f"seed={text}"])[0].value() == text
    return text if is_plain else QuotedString(text, Quote.single).with_quotes()


def plain(value: Any, key: str = "") -> Any:
    """``value``, of a scalar of NumPy its Python number, of a path its text, with ``~`` as in a shell."""
    value = value.item() if isinstance(value, np.generic) else value
    value = str(value) if isinstance(value, PurePath) else value
    return os.path.expanduser(value) if key in PATHS and isinstance(value, str) else value


def copied(module: nn.Module) -> Callable[..., nn.Module]:
    """A function that returns copies of ``module``, with a digest of its layers as an option."""
    shapes = {name: list(value.shape) for name, value in module.state_dict().items()}
    known = digest(f"{module} {shapes}", 12)

    def copy_of(num_classes: int, *, layers: str = known) -> nn.Module:
        if layers != known:
            raise ValueError(f"model has the layers {known}, and the run's had {layers}")
        return copy.deepcopy(module)

    copy_of.__name__ = type(module).__name__
    copy_of.module = module  # type: ignore[attr-defined]
    return copy_of


def _apart(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy, as ``settings`` may be changed for the next training."""
    return {key: _apart(one) if isinstance(one, Mapping) else one for key, one in settings.items()}


def _recognised_by(
    job: Job, callbacks: Sequence["Callback"], classifier: "type[Classifier] | None"
) -> dict[str, Any]:
    """Names and digests of a script's own code, of which bodies and arguments are no part."""
    found: dict[str, Any] = {}
    if classifier is not None:
        found["classifier"] = classifier.__name__
    if callbacks:
        found["callbacks"] = [type(one).__name__ for one in callbacks]
    if (module := _module_of(job)) is not None:
        known = module.state_dict() | dict(module.named_buffers())  # Some buffers are in no checkpoint
        found["initial_weights"] = Weights(known, "of a module").sha256[:12]
        if frozen := [name for name, one in module.named_parameters() if not one.requires_grad]:
            found["frozen"] = f"{len(frozen)} parameters ({digest(str(frozen), 12)})"
    return found


def _module_of(job: Job) -> nn.Module | None:
    """The script's own module that the job trains a copy of."""
    model = job.settings["model"]
    entry = registry.lookup({}, "networks", model["arch"]) if model["name"] == "installed" else None
    return getattr(entry, "module", None)


def _job(overrides: Any) -> Job:
    with COMPOSING, _hydra_apart():
        (job,) = jobs_of(Request(list(overrides)))
    if job.on_recipe:
        log.info("%s", job.on_recipe)
    return job


@contextmanager
def _hydra_apart() -> Iterator[None]:
    """Set the Hydra of a script aside, such as that of ``hydra.main``, and restore it.

    Ours must not remain: Lightning would add its options to the command that it starts for further devices.
    """
    hydra, version, job = GlobalHydra.instance(), VersionBase.instance(), JobRuntime()
    running, base, name = hydra.hydra, version.version_base, job.get("name")
    config = HydraConfig.instance().cfg
    hydra.clear()
    show_to_resolvers(None)
    try:
        yield
    finally:
        GlobalHydra.set_instance(hydra)
        hydra.hydra, version.version_base = running, base
        job.set("name", name)
        show_to_resolvers(cast(Any, config))


@contextmanager
def _begun(job: Job) -> Iterator[None]:
    """Hold the job's folder as a run's, and note there how the block ends."""
    with held(job.folder) as folder:
        name = begin(job)
        try:
            yield
        except (Stopped, SystemExit, Exception) as error:
            if note_end(job, name, error).status == 2 and not (job.folder / layout.SETTINGS).exists():
                folder.undo()
            raise
        status.write(job.folder, "done")


@contextmanager
def _as_found() -> Iterator[None]:
    """Restore the process-wide state that a training changes."""
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    cudnn = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    loggers = [logging.getLogger(name) for name in LOGGERS]
    said = [(one.level, one.propagate, one.handlers[:]) for one in loggers]
    try:
        with generators_kept(), warnings.catch_warnings():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = cudnn
        if workspace is None:
            os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
        for logger, (level, propagate, handlers) in zip(loggers, said, strict=True):
            logger.setLevel(level)
            logger.propagate, logger.handlers[:] = propagate, handlers
