"""JSON files of a run, read with the reason where one is damaged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cnnpool.run_folder.errors import DamagedError

T = TypeVar("T")


def read_json(path: Path, checked: Callable[[Any], T], *, most: int) -> T | None:
    """The content of ``path`` as ``checked`` makes it of its JSON; None where there is no file.

    Args:
        path: file.
        checked: raises ValueError for content that cannot be.
        most: bytes, above which the file is not read.

    Raises:
        DamagedError: if the file cannot be read, or is not as it was written.
    """
    try:
        if path.stat().st_size > most:
            raise ValueError("it is too long")
        return checked(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: {error}", str(error)) from None
