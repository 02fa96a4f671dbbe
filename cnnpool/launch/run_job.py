"""Run jobs that are not finished in this process: each in its folder, with its log, to its outcome."""

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from cnnpool.launch.check import loggers_of
from cnnpool.launch.job import Job, NoDownload, Outcome
from cnnpool.recipe import TensorBoard
from cnnpool.run_folder import layout, metrics, results, status
from cnnpool.run_folder.errors import DamagedError, DivergedError, InUseError, LostError, OccupiedError
from cnnpool.run_folder.folder_lock import held, refuse_foreign
from cnnpool.run_folder.identity import differences, identity_settings, is_longer
from cnnpool.run_folder.log import logged
from cnnpool.run_folder.results import Results
from cnnpool.system.process import importing, rank
from cnnpool.system.progress import Progress
from cnnpool.system.signals import Stopped

log = logging.getLogger(__name__)

OUT_OF_MEMORY = re.compile(
    r"out of memory|not enough memory|(can't|cannot) allocate memory"
    # oneDNN and the loader of shared objects do not name the missing resource.
    r"|could not create a primitive|failed to map segment",
    re.IGNORECASE,
)
UNANSWERED = re.compile(r"\bgloo\b|\bnccl\b|connection (closed|reset) by peer", re.IGNORECASE)
PUBLISHED = frozenset(("cifar10", "cifar100", "digits", "fashion_mnist", "mnist"))
"""Data sets with fixed images wherever they lie, so a finished run need not read them again."""
REMEDY = "train anew by overwrite=true, or choose another folder by out= or hydra.run.dir="


def run(job: Job, *, sparse: bool = False) -> Outcome:
    """Train unless the folder holds the finished run; never raises, so a sweep continues."""
    try:
        if job.settings.get("trainer", {}).get("fast_dev_run"):
            return _try_out(job)
        if rank():
            return run_secondary_rank(job)
        with held(job.folder) as folder:
            with logged(job.folder, sparse=sparse) as written:
                outcome = _run(job)
            if written.failure and outcome.state == "done":
                sys.stderr.write(f"{outcome.log}: {written.failure.strerror}; the rest of it is lost\n")
            if outcome.status == 2 and not job.sweep and not (job.folder / layout.SETTINGS).exists():
                folder.undo()
            return outcome
    except (InUseError, OccupiedError) as error:
        refused = _outcome(job, "refused", str(error), 2)
        return replace(refused, in_use=isinstance(error, InUseError))
    except OSError as error:
        with suppress(OSError):
            # A finished run is left alone, so its folder need not be writable.
            if done := outcome_if_done(job):
                if done.state == "done" and not sparse:
                    sys.stdout.write(f"{job.folder} is finished already\n")
                return done
        return failed(job, error)
    except Stopped as stop:
        return stopped(job, stop)


def run_here(jobs: Sequence[Job], /) -> Iterator[Outcome]:
    """Outcomes of ``jobs``, one after the other in this process, up to a signal."""
    missing = NoDownload()
    for job in jobs:
        failed = missing.outcome(job)
        outcome = (outcome_if_done(job) or failed) if failed else run(job, sparse=len(jobs) > 1)
        missing.note(job, outcome)
        yield outcome
        if outcome.state == "stopped":
            raise Stopped(outcome.status - 128)


def _try_out(job: Job) -> Outcome:
    """Some batches of everything, to see that it works: no folder is made."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout, force=True)
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    try:
        with Progress("loading PyTorch"), importing():
            from cnnpool.training import try_out

        try_out(job.settings)
    except (Exception, SystemExit) as error:
        if os.environ.get("CNNPOOL_TRACEBACK"):
            traceback.print_exc()
        return failed(job, error)
    log.info("training, validation and test work; nothing was written (trainer.fast_dev_run)")
    return _outcome(job, "tried", "", 0)


def outcome_if_done(job: Job) -> Outcome | None:
    """The outcome of a job that need not start: done earlier, with all logs that are chosen, or refused."""
    try:
        refuse_foreign(job.folder)
        found = finished(job)
    except OccupiedError as error:
        return _outcome(job, "refused", str(error), 2)
    return None if found is None or late_logs(job) else _done(job, found.accuracy)


def late_logs(job: Job) -> list[TensorBoard]:
    """The chosen logs, beside TensorBoard, that do not have the history of the job's run."""
    beside = [one for one in loggers_of(job.settings) if one.called != "tensorboard"]
    known = metrics.logged(job.folder) if beside else ()
    return [one for one in beside if one.called not in known]


def catch_up(job: Job, found: Results) -> None:
    """Give the history of a finished run to logs that were chosen later; an OccupiedError if they fail."""
    if chosen := late_logs(job):
        with Progress("loading Lightning"), importing():
            from cnnpool.fit import loggers
        try:
            loggers.catch_up(chosen, job.folder, found)
        except ValueError as error:
            # The run itself is as it was.
            raise OccupiedError(str(error)) from None


def finished(job: Job) -> Results | None:
    """The results of the same run, if it has finished before and is not to be overwritten."""
    if job.settings.get("overwrite"):
        return None
    try:
        found = results.read(job.folder)
    except DamagedError as error:
        said = f"{job.folder / layout.RESULTS} is damaged: delete it to train again ({error.reason})"
        raise OccupiedError(said if error.reason else str(error)) from None
    if found is None:
        return None
    if found.examined or not found.asked:
        raise OccupiedError(f"{job.folder} holds results without a training: choose another folder by out=")
    asked = identity_settings(job.settings)
    if is_longer(found.asked, asked):
        log.info("%s holds %s of %s epochs", job.folder, found.epochs, asked["fit"]["epochs"])
        return None
    if differ := differences(found.asked, asked):
        remedy = REMEDY
        if all(one.startswith("fit.epochs:") for one in differ):
            remedy = (
                "its learning rate has run its course over these epochs, so that more are another run "
                f"(not with fit.schedule=constant fit.warmup=0): {REMEDY}"
            )
        raise OccupiedError(
            f"{job.folder} holds a finished run with other settings ({'; '.join(differ)}): {remedy}"
        )
    for what, compare in (("data", other_data), ("weights", other_weights)):
        try:
            differ = compare(found, job.settings)
        except ValueError as error:
            said = f"a finished run whose {what} cannot be compared: {error}"
            raise OccupiedError(f"{job.folder} holds {said}") from None
        if differ:
            said = f"a finished run on other {what} ({'; '.join(differ)})"
            raise OccupiedError(f"{job.folder} holds {said}: {REMEDY}")
    log.info("%s is finished already", job.folder)
    return found


def other_data(found: Results, settings: Mapping[str, Any]) -> list[str]:
    """The differences between the data of a finished run and that of ``settings``, as ``key: old -> new``."""
    chosen = settings["data"]
    if chosen["name"] in PUBLISHED or found.data_sha256 is None:
        return []
    with importing():
        from cnnpool.published.build import sized
    now = _digest(json.dumps(sized(settings)))
    if now == found.data_sha256:
        return []
    before = found.data.get("root")
    moved = [f"data.root: {before} -> {chosen['root']}"] if before != chosen.get("root") else []
    return [*moved, f"data_sha256: {found.data_sha256[:12]} -> {now[:12]}"]


def other_weights(found: Results, settings: Mapping[str, Any]) -> list[str]:
    """Likewise of the file of initial weights, unless it is gone."""
    before = found.model.get("weights_sha256")
    now = before and _weights_digest(json.dumps(settings["model"]))
    return [f"weights_sha256: {before[:12]} -> {now[:12]}"] if before and now and now != before else []


def look_again() -> None:
    """Forget the data and weights that were compared: between two calls from Python they may change."""
    _digest.cache_clear()
    _weights_digest.cache_clear()


@cache
def _digest(chosen: str) -> str:
    with importing():
        from cnnpool import data

    return data.identity(**json.loads(chosen))


@cache
def _weights_digest(chosen: str) -> str | None:
    with importing():
        from cnnpool.published.build import weights_of_file

    return weights_of_file(json.loads(chosen))


def failed(job: Job, error: BaseException) -> Outcome:
    """The outcome of a job ended by ``error``; a ValueError is an invalid argument."""
    of_memory = is_of_memory(error)
    mistake = isinstance(error, ValueError) and not of_memory
    outcome = _outcome(job, "failed", _described(error, job), 2 if mistake else 1)
    diverged = isinstance(error, DivergedError)
    return replace(outcome, out_of_memory=of_memory, no_download=_is_of_download(error), diverged=diverged)


def again(job: Job) -> str:
    """How to resume a job that did not end: ``overwrite`` would train it anew."""
    anew = job.settings.get("overwrite")
    return f"rerun {'without overwrite=true' if anew else 'the same command'} to resume"


def stopped(job: Job, stop: Stopped) -> Outcome:
    """The outcome of a job ended by a signal."""
    return _outcome(job, "stopped", f"{stop}; {again(job)}", stop.status)


def unreported(job: Job) -> Outcome:
    """The outcome of a job that returned none: stopped if its folder's status says so, else not run."""
    with suppress(DamagedError):
        if (now := status.read(job.folder)) and now.state == "stopped":
            return Outcome(job.name, now.state, now.error or "", now.status or 1, job.folder / layout.LOG)
    return Outcome(job.name, "not run", "", 1, job.folder)


def lost(job: Job, message: str, log: Path) -> Outcome:
    """The outcome of a job whose process ended without one; also written to its status file."""
    job.folder.mkdir(parents=True, exist_ok=True)
    status.write(job.folder, "failed", message, 1)
    return replace(_outcome(job, "failed", message, 1), log=log)


def is_of_memory(error: BaseException | None) -> bool:
    """Whether ``error``, or an error that caused it, says that memory ran out."""
    while error is not None:
        if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_of_download(error: BaseException) -> bool:
    # Not imported, which would import torch for seconds: such an error implies that it is imported already.
    errors = sys.modules.get("cnnpool.data.errors")
    return errors is not None and isinstance(error, errors.DownloadError)


def _described(error: BaseException, job: Job) -> str:
    """Cause, place and remedy in one line."""
    message = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
    if isinstance(error, SystemExit):
        return f"exit({error.code}) was called during the training"
    if is_of_memory(error):
        size = job.settings.get("data", {}).get("batch_size")
        return (
            f"out of memory with data.batch_size={size}: lower it, or raise fit.accumulate, "
            "or take a smaller model or smaller images"
        )
    if message.startswith("Expected more than 1 value per channel"):
        size, pieces = job.settings["data"]["batch_size"], job.settings["fit"]["accumulate"]
        return (
            "batch normalisation of a 1x1 map needs at least two images at once: "
            f"give it more by data.batch_size={size} and fit.accumulate={pieces}"
        )
    if job.devices > 1 and UNANSWERED.search(message):
        return "another process of this training ended, or does not answer; " + again(job)
    if isinstance(error, OSError) and error.strerror:
        place = error.filename or job.folder
        return f"{place}: {error.strerror}; fix that, then {again(job)}"
    if isinstance(error, ValueError) or type(error).__module__.startswith("cnnpool."):
        return message
    return f"{type(error).__name__}: {message}"


def _run(job: Job) -> Outcome:
    name = ""
    try:
        found = finished(job)
        trained = found is None
        if trained:
            name = begin(job)
            found = _train(job)
        elif found:
            catch_up(job, found)
        status.write(job.folder, "done")
        return replace(_done(job, found.accuracy if found else None), trained=trained)
    except OccupiedError:
        raise
    except (Stopped, Exception, SystemExit) as error:
        return note_end(job, name, error, record=True)


def begin(job: Job) -> str:
    """Make the job's folder that of a running run; returns the run's own name there."""
    if job.settings.get("overwrite"):
        layout.clear(job.folder)
    name = layout.begin(job.folder)
    status.write(job.folder, "running")
    return name


def note_end(job: Job, name: str, error: BaseException, *, record: bool = False) -> Outcome:
    """How ``error`` ended a job, also written to the folder of run ``name``, with ``record`` to its log."""
    state: status.State = "stopped" if isinstance(error, Stopped) else "failed"
    outcome = stopped(job, error) if isinstance(error, Stopped) else failed(job, error)
    # On a full disk, or in a replaced folder, only the terminal gets the message.
    with suppress(OSError, LostError):
        if name:
            layout.refuse_lost(job.folder, name)
        status.write(job.folder, state, outcome.message, outcome.status, diverged=outcome.diverged)
        if record and state == "failed":
            _record(job)
    return outcome


def run_secondary_rank(job: Job) -> Outcome:
    """Train as a process of rank above 0; the first process writes the folder and the output."""
    try:
        # Like the first process, which would otherwise be waited for.
        if finished(job) is None:
            _train(job)
    except OccupiedError:
        raise
    except (Exception, SystemExit) as error:
        with suppress(OSError):
            _record(job)
        return failed(job, error)
    return _outcome(job, "done", "", 0)


def _record(job: Job) -> None:
    """Append the traceback of the current exception to the job's log."""
    if os.environ.get("CNNPOOL_TRACEBACK"):
        traceback.print_exc()
    with (job.folder / layout.LOG).open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(traceback.format_exc())


def _train(job: Job) -> Results | None:
    if job.on_recipe:
        log.info("%s", job.on_recipe)
    # torch takes seconds to import; finished runs and mistakes are reported before.
    with Progress("loading PyTorch"), importing():
        from cnnpool.training import train

    return train(job.settings, job.folder, job.name, job.overrides, loggers_of(job.settings))


def _done(job: Job, accuracy: float | None) -> Outcome:
    message = "" if accuracy is None else f"test accuracy {100 * accuracy:.2f} %"
    return replace(_outcome(job, "done", message, 0), accuracy=accuracy)


def _outcome(job: Job, state: str, message: str, code: int) -> Outcome:
    return Outcome(job.name, state, message, code, job.folder / layout.LOG)
