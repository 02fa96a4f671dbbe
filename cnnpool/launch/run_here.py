"""Jobs one after the other in this process, each with its folder, its log and a state that others read."""

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cnnpool.launch import check
from cnnpool.launch.failures import describe, of_memory
from cnnpool.launch.job import Job, Outcome
from cnnpool.run_folder.atomic import InUseError, only_user, write_json
from cnnpool.run_folder.identity import asked as deciding
from cnnpool.run_folder.identity import differences
from cnnpool.system.process import importing, rank
from cnnpool.system.signals import Stopped

log = logging.getLogger(__name__)

LOG = "train.log"


class OccupiedError(ValueError):
    """The folder belongs to another run; nothing in it is touched."""


def run_here(asked: Sequence[Job], /) -> Iterator[Outcome]:
    """Outcomes of ``asked``, one after the other, up to a signal."""
    for number, job in enumerate(asked, 1):
        announce(job, number, len(asked))
        outcome = run(job)
        yield outcome
        if outcome.state == "stopped":
            raise Stopped(outcome.status - 128)


def announce(job: Job, number: int, total: int) -> None:
    """Say on stdout which of several jobs starts."""
    if total > 1:
        sys.stdout.write(f"[{number}/{total}] {job.name}\n")
        sys.stdout.flush()


def run(job: Job) -> Outcome:
    """Train unless the folder holds the finished run; never raises, so that a sweep goes on."""
    if rank():
        return _assist(job)
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}; choose another folder by out= or hydra.run.dir="
        return _outcome(job, "refused", said, 2)
    try:
        with only_user(job.folder):
            with _logged(job):
                outcome = _run(job)
            if outcome.status == 2 and not job.sweep:
                _leave_nothing(job.folder)
            return outcome
    except (InUseError, OccupiedError) as error:
        return _outcome(job, "refused", str(error), 2)
    except OSError as error:
        return failed(job, error)


def already(job: Job) -> Outcome | None:
    """The outcome of a job that need not start: done earlier, or refused."""
    try:
        results = _finished(job)
    except OccupiedError as error:
        return _outcome(job, "refused", str(error), 2)
    return None if results is None else _done(job, results)


def failed(job: Job, error: BaseException) -> Outcome:
    """The outcome of a job that ``error`` ended; a ValueError is a mistake in what was asked."""
    mistake = isinstance(error, ValueError) and not of_memory(error)
    return _outcome(job, "failed", describe(error, job), 2 if mistake else 1)


def stopped(job: Job, stop: Stopped) -> Outcome:
    """The outcome of a job that a signal ended."""
    return _outcome(job, "stopped", f"{stop}; the same command goes on from there", stop.status)


def write_state(folder: Path, state: str, error: str | None = None, status: int | None = None) -> None:
    """``status.json``: running, done, stopped or failed, why, the exit status, and which process says so."""
    content = {"state": state, "error": error, "status": status, "pid": os.getpid(), "time": time.time()}
    # Nobody misses after a power cut that it was running.
    write_json(folder / "status.json", content, flush=state != "running")


def _run(job: Job) -> Outcome:
    try:
        results = _finished(job)
        if results is None:
            write_state(job.folder, "running")
            results = _train(job)
        write_state(job.folder, "done")
        return _done(job, results)
    except OccupiedError:
        raise
    except Stopped as stop:
        outcome = stopped(job, stop)
        write_state(job.folder, outcome.state, outcome.said, outcome.status)
    except (Exception, SystemExit) as error:
        outcome = failed(job, error)
        # Where the disk is full, the message on the terminal is all there is.
        with suppress(OSError):
            write_state(job.folder, outcome.state, outcome.said, outcome.status)
            _record(job)
    return outcome


def _assist(job: Job) -> Outcome:
    """Train as one of the further processes; the first one keeps the folder and says what happens."""
    logging.disable(logging.INFO)
    try:
        _train(job)
    except Stopped as stop:
        return stopped(job, stop)
    except (Exception, SystemExit) as error:
        with suppress(OSError):
            _record(job)
        return failed(job, error)
    return _outcome(job, "done", "", 0)


def _record(job: Job) -> None:
    """Append the traceback of the exception that is being handled to the job's log."""
    if os.environ.get("CNNPOOL_TRACEBACK"):
        traceback.print_exc()
    with (job.folder / LOG).open("a") as file:
        file.write(traceback.format_exc())


def _train(job: Job) -> dict[str, Any]:
    if job.mistake:
        raise ValueError(job.mistake)
    recipe = check.check(job.settings)
    # torch and Lightning take seconds to import, for which neither a finished run nor a mistake need wait.
    with importing():
        from cnnpool.launch.build import train

    return train(job.settings, recipe, job.folder, job.name, job.overrides)


@contextmanager
def _logged(job: Job) -> Iterator[None]:
    """Log into the job's own file, and no longer than the job takes: its folder may be gone afterwards."""
    console, file = logging.StreamHandler(sys.stdout), logging.FileHandler(job.folder / LOG, delay=True)
    console.setFormatter(logging.Formatter("%(message)s"))
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[console, file], force=True)
    try:
        yield
    finally:
        for handler in (console, file):
            logging.getLogger().removeHandler(handler)
            handler.close()


def _finished(job: Job) -> dict[str, Any] | None:
    """The results of the same run, finished earlier.

    Raises:
        OccupiedError: if the folder holds another run.
    """
    path = job.folder / "results.json"
    if job.mistake or not path.exists():
        return None
    try:
        results = json.loads(path.read_text())
        earlier, _ = results["asked"], results["test"]["accuracy"]
    except (ValueError, KeyError, TypeError):
        raise OccupiedError(f"{path} is damaged: delete it to train again") from None
    if differ := differences(earlier, deciding(job.settings)):
        raise OccupiedError(
            f"{job.folder} holds a finished run with other settings ({'; '.join(differ)}): "
            "delete it, or choose another folder by out= or hydra.run.dir="
        )
    log.info("%s is finished already", job.folder)
    return dict(results)


def _leave_nothing(folder: Path) -> None:
    """Take back what a run has created that never began, because what was asked is a mistake."""
    if not (folder / ".hydra").exists():
        for name in ("status.json", LOG, ".lock"):
            (folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            for place in (folder, *folder.parents):
                if Path.cwd().is_relative_to(place):
                    break
                place.rmdir()
                if not place.is_relative_to(Path.cwd()):
                    break


def _done(job: Job, results: dict[str, Any]) -> Outcome:
    return _outcome(job, "done", f"test accuracy {100 * results['test']['accuracy']:.2f} %", 0)


def _outcome(job: Job, state: str, said: str, status: int) -> Outcome:
    return Outcome(job.name, state, said, status, job.folder / LOG)
