"""Jobs one after the other in this process: their folders, their states that others can read, their ends."""

import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cnnpool.launch import check
from cnnpool.launch.job import Job, Outcome
from cnnpool.run_folder.atomic import InUseError, only_user, write_json
from cnnpool.run_folder.identity import asked, differences
from cnnpool.system.process import importing, rank
from cnnpool.system.signals import Stopped

log = logging.getLogger(__name__)

LOG = "train.log"

OUT_OF_MEMORY = re.compile(r"out of memory|not enough memory|can't allocate memory", re.IGNORECASE)


class OccupiedError(ValueError):
    """The folder belongs to another run; nothing in it is touched."""


def run(job: Job) -> Outcome:
    """Train unless the folder holds the finished run; never raises, so that a sweep goes on."""
    if rank():
        return _assist(job)
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
        return _outcome(job, "failed", _describe(error, job), 1)


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


def _assist(job: Job) -> Outcome:
    """Train as one of the further processes; the first one keeps the folder and says what happens."""
    logging.disable(logging.INFO)
    try:
        _train(job)
    except Stopped as stop:
        # Not a failure, for which Lightning would end the first process.
        return _outcome(job, "done", str(stop), 0)
    return _outcome(job, "done", "", 0)


def already(job: Job) -> Outcome | None:
    """What can be said of a job without starting it: done earlier, or refused."""
    try:
        results = _finished(job)
    except OccupiedError as error:
        return _outcome(job, "refused", str(error), 2)
    return None if results is None else _done(job, results)


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


def _run(job: Job) -> Outcome:
    try:
        results = _finished(job)
        if results is None:
            write_state(job.folder, "running")
            results = _train(job)
        write_state(job.folder, "done")
    except OccupiedError:
        raise
    except Stopped as stop:
        said = f"{stop}; the same command goes on from there"
        write_state(job.folder, "stopped", said, stop.status)
        return _outcome(job, "stopped", said, stop.status)
    except (Exception, SystemExit) as error:
        said = _describe(error, job)
        status = 2 if isinstance(error, ValueError) and not _of_memory(error) else 1
        if os.environ.get("CNNPOOL_TRACEBACK"):
            traceback.print_exc()
        # Where the disk is full, the message on the terminal is all there is.
        with suppress(OSError):
            write_state(job.folder, "failed", said, status)
            with (job.folder / LOG).open("a") as file:
                file.write(traceback.format_exc())
        return _outcome(job, "failed", said, status)
    return _done(job, results)


def _train(job: Job) -> dict[str, Any]:
    if job.mistake:
        raise ValueError(job.mistake)
    recipe = check.check(job.settings)
    # torch and Lightning take seconds to import, for which neither a finished run nor a mistake need wait.
    with importing():
        from cnnpool.launch.build import train

    return train(job.settings, recipe, job.folder, job.name, job.overrides)


def _done(job: Job, results: dict[str, Any]) -> Outcome:
    return _outcome(job, "done", f"test accuracy {100 * results['test']['accuracy']:.2f} %", 0)


def _outcome(job: Job, state: str, said: str, status: int) -> Outcome:
    return Outcome(job.name, state, said, status, job.folder / LOG)


def write_state(folder: Path, state: str, error: str | None = None, status: int | None = None) -> None:
    """``status.json``: running, done, stopped or failed, why, the exit status, and which process says so."""
    content = {"state": state, "error": error, "status": status, "pid": os.getpid(), "time": time.time()}
    # Nobody misses after a power cut that it was running.
    write_json(folder / "status.json", content, flush=state != "running")


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
    if differ := differences(earlier, asked(job.settings)):
        raise OccupiedError(
            f"{job.folder} holds a finished run with other settings ({'; '.join(differ)}): "
            "delete it, or choose another folder by out= or hydra.run.dir="
        )
    log.info("%s is finished already", job.folder)
    return results


def _of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or bool(OUT_OF_MEMORY.search(str(error)))


def _describe(error: BaseException, job: Job) -> str:
    """One line: what, where, remedy."""
    said = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
    if isinstance(error, SystemExit):
        return f"something called exit({error.code}) while it trained"
    if _of_memory(error):
        size = job.settings.get("data", {}).get("batch_size")
        return (
            f"out of memory with data.batch_size={size}: lower it, or raise fit.accumulate, "
            "or take a smaller model or smaller images"
        )
    if said.startswith("Expected more than 1 value per channel"):
        size, pieces = job.settings["data"]["batch_size"], job.settings["fit"]["accumulate"]
        return (
            "batch normalisation of a 1x1 map needs at least two images at once: "
            f"give it more by data.batch_size={size} and fit.accumulate={pieces}"
        )
    if isinstance(error, OSError) and error.strerror:
        return (
            f"{error.filename or job.folder}: {error.strerror}; put that right, and the same command goes on"
        )
    if isinstance(error, ValueError) or type(error).__module__.startswith("cnnpool."):
        return said
    return f"{type(error).__name__}: {said}"
