"""Read files below a folder of runs, which anyone may have put there; others raise a :class:`DamagedError`.

Only regular files of a limited size are read, JSON may contain only finite numbers, and YAML no aliases, with
which a small file can fill the memory.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from cnnpool import json_text
from cnnpool.run_folder.errors import DamagedError

T = TypeVar("T")
LONGEST = 1 << 28  # Largest size in bytes; a run with all its maps takes a thousandth


def read_bytes(path: Path) -> bytes | None:
    """The content of ``path``; None if there is no file."""
    try:
        regular(path)
        with path.open("rb") as file:
            return file.read(LONGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror or error}") from None


def regular(path: Path) -> os.stat_result:
    """The ``stat`` of the file ``path``; a DamagedError if it is not a regular file or is too long."""
    found = path.stat()
    # Opening a pipe would wait for its writer.
    if not stat.S_ISREG(found.st_mode):
        raise DamagedError(f"{path} cannot be read: it is not a regular file")
    if found.st_size > LONGEST:
        raise damaged(path, f"it is longer than {LONGEST:,} bytes")
    return found


def read_json(path: Path, checked: Callable[[Any], T]) -> T | None:
    """``checked``, which may raise ValueError, applied to the JSON of ``path``; None without a file."""
    return read_checked(path, lambda content: checked(json_text.parse(content)))


def read_checked(path: Path, checked: Callable[[bytes], T]) -> T | None:
    """``checked``, which may raise ValueError, applied to the content of ``path``; None without a file."""
    content = read_bytes(path)
    try:
        return None if content is None else checked(content)
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None


def read_yaml(path: Path) -> Any:
    """The content of ``path`` as plain YAML without aliases; None if there is no file."""
    content = read_bytes(path)
    try:
        return None if content is None else _Plain(content).get_single_data()
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise damaged(path, " ".join(str(error).split())) from None


def damaged(path: Path, reason: str) -> DamagedError:
    return DamagedError(f"{path} is damaged: {reason}", reason)


class _Plain(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has an alias")
        return super().compose_node(parent, index)
