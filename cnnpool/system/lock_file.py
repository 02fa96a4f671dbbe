"""Files whose writer holds a lock on them, dropped by the kernel when it ends."""

import io
import os
from contextlib import suppress
from pathlib import Path

from cnnpool.system.atomic import replacing

try:
    import fcntl
except ImportError:
    # Windows: nobody can see whether the writer has ended.
    fcntl = None  # type: ignore[assignment]


class LockedFile:
    """A file that this process replaces now and then, locked as long as it may do so.

    The lock is on the content, not on the name: readers cannot get into the way of the next writer.

    Args:
        path: of the file, in a folder that exists.
    """

    def __init__(self, path: Path):
        self.path = path
        self._held: int | None = None

    def write(self, content: bytes) -> None:
        """Let the file hold ``content``; it is locked from the moment at which it is there.

        Raises:
            OSError: naming the file.
        """
        with replacing(self.path, flush=False) as file:
            file.write(content)
            held = _locked(file)
        self.release()
        self._held = held

    def release(self) -> None:
        """Show that this process writes no more."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def remove(self) -> None:
        """Delete the file, unless another process has replaced it."""
        if self._held is None or _same(self._held, self.path):
            self.path.unlink(missing_ok=True)
        self.release()


def is_locked(path: Path) -> bool | None:
    """Whether a process of this machine, such as the writer of ``path``, holds a lock on it.

    Returns:
        None where nobody can tell: without such a file, and on a disk or a system without locks.
    """
    if fcntl is None:
        return None
    try:
        # A pipe or a link in its place must neither block nor lead elsewhere.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return True if isinstance(error, BlockingIOError) else None
    finally:
        os.close(file)
    return False


def _same(number: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(number), path.stat())
    return False


def _locked(file: io.BufferedWriter) -> int | None:
    """A second number of the open ``file``, with a lock that lasts as long as it; None without locks."""
    if fcntl is None:
        return None
    held = os.dup(file.fileno())
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # A disk without locks.
        os.close(held)
        return None
    return held
