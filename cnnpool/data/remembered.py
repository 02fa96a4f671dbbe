"""Digests of large files, computed once for each state of the file."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cnnpool.system.atomic import write_json

RACY_S = 2.0
"""A file that was changed less than this ago may change again without its time showing it."""


def remembered(path: Path, what: str, compute: Callable[[], str]) -> str:
    """The digest that ``compute`` gives, remembered beside ``path`` until that file changes.

    Args:
        path: file that it depends on.
        what: else it depends on.
        compute: from the file.
    """
    memory = path.with_name(f"{path.name}.digests")
    state, begun = _state(path), time.time()
    known = _read(memory, state)
    if what in known:
        return known[what]
    digest = compute()
    if _state(path) == state and path.stat().st_ctime < begun - RACY_S:
        # It costs time next time, no more.
        with suppress(OSError):
            content = {"state": state, "digests": {**_read(memory, state), what: digest}}
            write_json(memory, content, flush=False)
    return digest


def _read(memory: Path, state: list[int]) -> dict[str, str]:
    try:
        content = json.loads(memory.read_text(encoding="utf-8"))
        return dict(content["digests"]) if content["state"] == state else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
