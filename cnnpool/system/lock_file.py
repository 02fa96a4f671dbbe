"""File locks that the kernel releases when their holder ends."""

import os
from pathlib import Path

from filelock import FileLock

try:
    import fcntl
except ImportError:
    # Windows: whether the holder has ended cannot be determined.
    fcntl = None  # type: ignore[assignment]

LOOKED_AT_S = 0.2  # Seconds for which ``is_locked`` elsewhere may hold a lock


def lock(path: Path) -> FileLock:
    """A lock on ``path``, whose ``acquire`` raises ``Timeout``, an OSError, if another process holds it."""
    return FileLock(path, timeout=LOOKED_AT_S, poll_interval=LOOKED_AT_S / 4)


def is_locked(path: Path) -> bool | None:
    """Whether a process of this machine holds a lock on ``path``; None if that cannot be determined."""
    if fcntl is None:
        return None
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return True if isinstance(error, BlockingIOError) else None
    finally:
        os.close(file)
    return False
