"""Run jobs one after the other in this process, each with its folder, log and status file."""

import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from cnnpool.launch import check
from cnnpool.launch.finished import finished
from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.no_download import NoDownload
from cnnpool.run_folder import layout, status
from cnnpool.run_folder.errors import InUseError, LostError, OccupiedError
from cnnpool.run_folder.hold import held, refuse_foreign
from cnnpool.run_folder.log import logged
from cnnpool.run_folder.results import Results
from cnnpool.system.process import importing, rank
from cnnpool.system.progress import Progress, make_way
from cnnpool.system.signals import Stopped

log = logging.getLogger(__name__)


def run_here(asked: Sequence[Job], /) -> Iterator[Outcome]:
    """Outcomes of ``asked``, one after the other, up to a signal."""
    missing = NoDownload()
    for number, job in enumerate(asked, 1):
        announce(job, number, len(asked))
        failed = missing.outcome(job)
        outcome = (already(job) or failed) if failed else run(job)
        missing.note(job, outcome)
        yield outcome
        if outcome.state == "stopped":
            raise Stopped(outcome.status - 128)


def run_local(asked: Sequence[Job], /) -> Iterator[Outcome]:
    """As :func:`run_here`; after a job that ran out of memory the others run in processes of their own.

    Memory that the failed job still holds could make small jobs fail too.
    """
    for number, outcome in enumerate(run_here(asked), 1):
        yield outcome
        if outcome.out_of_memory and number < len(asked):
            yield from _apart(asked[number:])
            return


def _apart(asked: Sequence[Job]) -> Iterator[Outcome]:
    # The failed job has imported torch already. With as many threads the results are the same to the bit.
    import torch

    from cnnpool.launch.run_processes import run_processes
    from cnnpool.system.hardware import release_memory

    release_memory()
    sys.stdout.write("out of memory: each of the other jobs runs in a process of its own\n")
    yield from run_processes(asked, jobs=1, threads=torch.get_num_threads())


def announce(job: Job, number: int, total: int) -> None:
    """Print which of several jobs starts."""
    if total > 1:
        make_way()
        sys.stdout.write(f"[{number}/{total}] {job.name}\n")
        sys.stdout.flush()


def run(job: Job) -> Outcome:
    """Train unless the folder holds the finished run; never raises, so that a sweep goes on."""
    if rank():
        return _assist(job)
    try:
        with held(job.folder) as folder:
            with logged(job.folder) as written:
                outcome = _run(job)
            if written.failure and outcome.state == "done":
                sys.stderr.write(f"{outcome.log}: {written.failure.strerror}; the rest of it is lost\n")
            if outcome.status == 2 and not job.sweep and not (job.folder / layout.SETTINGS).exists():
                folder.withdraw()
            return outcome
    except (InUseError, OccupiedError) as error:
        return _outcome(job, "refused", str(error), 2)
    except OSError as error:
        return failed(job, error)


def already(job: Job) -> Outcome | None:
    """The outcome of a job that need not start: done earlier, or refused."""
    try:
        refuse_foreign(job.folder)
        found = finished(job)
    except OccupiedError as error:
        return _outcome(job, "refused", str(error), 2)
    return None if found is None else _done(job, found.accuracy)


def failed(job: Job, error: BaseException) -> Outcome:
    """The outcome of a job that ``error`` ended; a ValueError is a mistake in what was asked."""
    from cnnpool.launch.failures import describe, is_of_download, is_of_memory

    of_memory = is_of_memory(error)
    mistake = isinstance(error, ValueError) and not of_memory
    outcome = _outcome(job, "failed", describe(error, job), 2 if mistake else 1)
    return replace(outcome, out_of_memory=of_memory, no_download=is_of_download(error))


def stopped(job: Job, stop: Stopped) -> Outcome:
    """The outcome of a job that a signal ended."""
    return _outcome(job, "stopped", f"{stop}; the same command goes on from there", stop.status)


def _run(job: Job) -> Outcome:
    name = ""
    try:
        found = finished(job)
        if found is None:
            name = layout.begin(job.folder)
            status.write(job.folder, "running")
            found = _train(job)
        status.write(job.folder, "done")
        return _done(job, found.accuracy if found else None)
    except OccupiedError:
        raise
    except Stopped as stop:
        outcome = stopped(job, stop)
        status.write(job.folder, "stopped", outcome.said, outcome.status)
    except (Exception, SystemExit) as error:
        outcome = failed(job, error)
        # On a full disk, or where somebody has put another folder, the terminal alone gets the message.
        with suppress(OSError, LostError):
            if name:
                layout.refuse_lost(job.folder, name)
            status.write(job.folder, "failed", outcome.said, outcome.status)
            _record(job)
    return outcome


def _assist(job: Job) -> Outcome:
    """Train as a process of rank above 0; the first process writes the folder and the output."""
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
    with (job.folder / layout.LOG).open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(traceback.format_exc())


def _train(job: Job) -> Results | None:
    if job.mistake:
        raise ValueError(job.mistake)
    recipe = check.check(job.settings)
    # torch takes seconds to import; finished runs and mistakes are reported before.
    with Progress("loading PyTorch"), importing():
        from cnnpool.launch.build import train

    return train(job.settings, recipe, job.folder, job.name, job.overrides)


def _done(job: Job, accuracy: float | None) -> Outcome:
    return _outcome(job, "done", "" if accuracy is None else f"test accuracy {100 * accuracy:.2f} %", 0)


def _outcome(job: Job, state: str, said: str, code: int) -> Outcome:
    return Outcome(job.name, state, said, code, job.folder / layout.LOG)
