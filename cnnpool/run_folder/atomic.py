"""Files that are either the old one or the whole new one, and folders that one process uses at a time."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from filelock import FileLock, Timeout


class InUseError(ValueError):
    """Another living process works in the folder."""


def replace(part: Path, path: Path) -> None:
    """Rename ``part`` to ``path``, without waiting for the disk to free what stood there.

    Where neighbours keep the disk busy that takes a twentieth of a second.
    """
    old = None
    # Elsewhere an open file cannot be replaced, or opening it may wait.
    if hasattr(os, "O_PATH"):
        with suppress(OSError):
            old = os.open(path, os.O_PATH)
    try:
        part.replace(path)
    finally:
        if old is not None:
            try:
                Thread(target=os.close, args=(old,), daemon=True).start()
            except RuntimeError:
                # No thread to be had.
                os.close(old)


def write_text(path: Path, text: str, *, flush: bool = True) -> None:
    """Write beside ``path``, flush to the disk, rename.

    Args:
        flush: or leave it to the system when the disk gets it: a power cut may leave an empty file.

    Raises:
        OSError: naming ``path``; what stood there still does.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if flush:
                os.fsync(file.fileno())
        replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def write_json(path: Path, content: Mapping[str, Any], *, flush: bool = True) -> None:
    """Write ``content`` as :func:`write_text` does."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n", flush=flush)


@contextmanager
def only_user(folder: Path) -> Iterator[None]:
    """Hold ``folder``, created if missing, for this process; the kernel lets go when a holder dies.

    Half-written files that a killed process left there are swept away.

    Raises:
        InUseError: if another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise InUseError(f"{folder} is in use by {_holder(folder)}: wait for it, or stop it") from None
    try:
        for part in folder.rglob(".*.part"):
            part.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


def _holder(folder: Path) -> str:
    try:
        return f"pid {json.loads((folder / 'status.json').read_text())['pid']}"
    except (OSError, ValueError, KeyError):
        return "another process"
