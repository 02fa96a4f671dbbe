"""A disk that takes no more: which one it is, and how much room is missing."""

import errno
import os
import shutil
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT}
UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


class WriteError(OSError):
    """A file that could not be written."""

    def __str__(self) -> str:
        return f"cannot write {self.filename}: {self.strerror}"


def explained(error: OSError, path: Path, needed: int = 0) -> WriteError:
    """The same error about the file ``path``, with the disk's name and its room if that is the reason.

    Args:
        error: raised when ``path`` was written.
        path: the file.
        needed: bytes that the file takes at least.
    """
    message = error.strerror or str(error)
    if error.errno in FULL:
        disk = mount_of(path)
        free = shutil.disk_usage(disk).free
        missing = size(max(needed - free, 0) + 4096)
        message = f"{message}: {size(free)} free on the disk at {disk}; free {missing} or more there"
    elif error.errno == errno.EFBIG:
        message = f"{message}: {size(needed)} are more than a file may have here; raise the limit (ulimit -f)"
    return WriteError(error.errno, message, str(path))


def mount_of(path: Path) -> Path:
    """Where the disk that holds ``path`` is mounted."""
    place = path.absolute()
    while not os.path.ismount(place):
        place = place.parent
    return place


def size(count: int) -> str:
    """A number of bytes with its unit: 512 B, 1.4 kB, 30 MB."""
    for unit, one in UNITS:
        if count >= one:
            return f"{count / one:.3g} {unit}"
    return f"{count} B"
