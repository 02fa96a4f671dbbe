"""Error messages of one line for failed jobs: cause, place and remedy."""

import re
import sys

from cnnpool.launch.job import Job

OUT_OF_MEMORY = re.compile(
    r"out of memory|not enough memory|(can't|cannot) allocate memory"
    # oneDNN and the loader of shared objects do not say what they lacked.
    r"|could not create a primitive|failed to map segment",
    re.IGNORECASE,
)
UNANSWERED = re.compile(r"\bgloo\b|\bnccl\b|connection (closed|reset) by peer", re.IGNORECASE)


def is_of_memory(error: BaseException | None) -> bool:
    """Whether ``error``, or an error that led to it, says that memory ran out."""
    while error is not None:
        if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_of_download(error: BaseException) -> bool:
    """Whether ``error`` says that the data could not be downloaded."""
    # Not imported: torch would be with it, which takes seconds, and such an error means that it is already.
    errors = sys.modules.get("cnnpool.data.errors")
    return errors is not None and isinstance(error, errors.DownloadError)


def describe(error: BaseException, job: Job) -> str:
    """Cause, place and remedy in one line."""
    said = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
    if isinstance(error, SystemExit):
        return f"something called exit({error.code}) while it trained"
    if is_of_memory(error):
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
    if job.devices > 1 and UNANSWERED.search(said):
        return "another process of this training ended, or does not answer; the same command goes on"
    if isinstance(error, OSError) and error.strerror:
        return (
            f"{error.filename or job.folder}: {error.strerror}; put that right, and the same command goes on"
        )
    if isinstance(error, ValueError) or type(error).__module__.startswith("cnnpool."):
        return said
    return f"{type(error).__name__}: {said}"
