"""Files with either the old or the complete new content: the only place that writes and renames."""

import errno
import io
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FULL = {errno.ENOSPC, errno.EDQUOT}


class Part(io.BufferedWriter):
    """A file that records why a write failed, which ``torch.save`` hides behind an error of its own."""

    error: OSError | None = None
    given = 0

    def write(self, content: Any) -> int:
        self.given += memoryview(content).nbytes
        try:
            return super().write(content)
        except OSError as error:
            self.error = error
            raise


@contextmanager
def replacing(path: Path, *, prefix: str = "", flush: bool = True) -> Iterator[Part]:
    """A new file beside ``path`` that replaces it when the block ends; after an error nothing has changed.

    ``prefix`` in its name identifies the leftovers of a killed process; ``flush`` waits until the disk has
    the content. An OSError names ``path``, and a full disk with the missing space.
    """
    part, file = beside(path, prefix), None
    try:
        # A killed process may have left it.
        part.unlink(missing_ok=True)
        with Part(io.FileIO(part, "x")) as file:
            yield file
            file.flush()
            if flush:
                os.fsync(file.fileno())
        rename(part, path)
        if flush:
            flush_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        failed = (file and file.error) or error
        if isinstance(failed, OSError) and isinstance(error, Exception):
            raise explained(failed, path, file.given if file else 0) from None
        raise


def write_bytes(path: Path, content: bytes, *, prefix: str = "", flush: bool = True) -> None:
    with replacing(path, prefix=prefix, flush=flush) as file:
        file.write(content)


def write_text(path: Path, text: str, *, prefix: str = "", flush: bool = True) -> None:
    """Set the content of ``path`` to ``text`` in UTF-8; see :func:`replacing`."""
    write_bytes(path, text.encode(), prefix=prefix, flush=flush)


def write_json(path: Path, content: Mapping[str, Any], *, prefix: str = "", flush: bool = True) -> None:
    """Set the content of ``path`` to ``content`` as JSON; a ValueError for a non-finite number."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n", prefix=prefix, flush=flush)


def beside(path: Path, prefix: str = "") -> Path:
    return path.with_name(f".{path.name}.{prefix or secrets.token_hex(4)}.part")


def rename(part: Path, path: Path) -> None:
    part.replace(path)


def flush_folder(folder: Path) -> None:
    """Wait until the disk has the names in ``folder``, if the system can open a folder."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(number)
    finally:
        os.close(number)


class WriteError(OSError):
    """A file that could not be written."""

    def __str__(self) -> str:
        return f"cannot write {self.filename}: {self.strerror}"


def explained(error: OSError, path: Path, needed: int = 0) -> WriteError:
    """The same error for ``path``, of at least ``needed`` bytes; for a full disk, with its name and space."""
    message = error.strerror or str(error)
    if error.errno in FULL:
        disk = next(place for place in (path.absolute(), *path.absolute().parents) if place.is_mount())
        free = shutil.disk_usage(disk).free
        missing = _size(max(needed - free, 0) + 4096)
        message = f"{message}: {_size(free)} free on the disk at {disk}; free {missing} or more there"
    elif error.errno == errno.EFBIG:
        message = f"{message}: {_size(needed)} exceed the limit of a file; raise it (ulimit -f)"
    return WriteError(error.errno, message, str(path))


def _size(count: int) -> str:
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:.3g} {unit}"
    return f"{count} B"
