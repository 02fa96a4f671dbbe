"""Files below a folder of runs; one not as it was written is a :class:`DamagedError` that names it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from cnnpool import json_text
from cnnpool.run_folder.errors import DamagedError

T = TypeVar("T")


def read_bytes(path: Path) -> bytes | None:
    """The content of ``path``; None where there is no file.

    Raises:
        DamagedError: if it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror or error}") from None


def read_json(path: Path, checked: Callable[[Any], T]) -> T | None:
    """The content of ``path`` as ``checked`` makes it of its JSON; None where there is no file.

    Args:
        path: file.
        checked: raises ValueError for content that cannot be.

    Raises:
        DamagedError: if the file cannot be read, or is not as it was written.
    """
    content = read_bytes(path)
    try:
        return None if content is None else checked(json_text.parse(content))
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None


def read_yaml(path: Path) -> Any:
    """The content of ``path`` as plain YAML; None where there is no file.

    Raises:
        DamagedError: if the file cannot be read, or is no plain YAML.
    """
    content = read_bytes(path)
    try:
        return None if content is None else yaml.safe_load(content)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise damaged(path, " ".join(str(error).split())) from None


def damaged(path: Path, reason: str) -> DamagedError:
    """The error that ``path`` is damaged, and why."""
    return DamagedError(f"{path} is damaged: {reason}", reason)
