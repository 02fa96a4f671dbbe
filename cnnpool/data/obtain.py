"""Files that torchvision unpacks and downloads: one process at a time, with a timeout and short errors."""

import logging
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from cnnpool.data.errors import DataError, DownloadError

_log = logging.getLogger(__name__)

T = TypeVar("T")
TIMEOUT_S = 60
"""Without a byte, before a server is given up."""
LARGEST = 1 << 28
"""Bytes of a file of the four built-in data sets; the largest, an archive of CIFAR, has 170 million."""
FETCH = "set data.download=true, or name the folder that holds it by data.root=FOLDER"


def obtained(
    title: str,
    root: Path,
    folder: Path,
    read: Callable[[], T],
    steps: Callable[[], Sequence[Callable[[], object]]],
    *,
    download: bool,
    largest: int | None = None,
    remedy: str = FETCH,
) -> T:
    """The data set that ``read`` gives, at once or after some of ``steps``.

    Args:
        title: of the data set.
        root: made if it is missing; it holds the lock.
        folder: of the files, for messages.
        read: reads the data set, or fails.
        steps: gives what may bring missing files; asked only where ``read`` failed.
        download: whether the last of them downloads.
        largest: bytes that a file may have; writing more fails. None for any size.
        remedy: what the user should do where there is no step.

    Raises:
        DataError: in one line, if it cannot be read.
        DownloadError: likewise, if a download did not help.
    """
    try:
        return read()
    except Exception as error:
        # Each data set raises its own kinds of errors for files that are missing or damaged.
        left = steps()
        if not left:
            raise DataError(f"cannot read {title} in {folder} ({_reason(error)}): {remedy}") from error
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{title}.lock"), _timeout(), _at_most(largest):
            # Before the first step: another process may have fetched it while this one waited.
            for step in (lambda: None, *left):
                if download and step is left[-1]:
                    _log.info("downloading %s to %s", title, folder)
                try:
                    step()
                    return read()
                except Exception as error:
                    last = error
            raise last
    except Exception as error:
        raise (DownloadError if download else DataError)(
            f"cannot {'download' if download else 'unpack'} {title} ({_reason(error)}): put its files into "
            f"{folder.absolute()} by hand, without damaged ones, or name another folder by data.root=FOLDER"
        ) from error


def _reason(error: Exception) -> str:
    """The message of an error of torchvision's in one line."""
    said = " ".join(str(error).partition("You can use download=True")[0].split()).rstrip(". ")
    return said[:300] or type(error).__name__


@contextmanager
def _timeout() -> Iterator[None]:
    # torchvision sets none, and would wait for a silent server for ever.
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@contextmanager
def _at_most(largest: int | None) -> Iterator[None]:
    # torchvision has no limit: a server that never ends would fill the disk.
    if largest is None or sys.platform == "win32":
        yield
        return
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    allowed = [limit for limit in (largest, before, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(allowed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
