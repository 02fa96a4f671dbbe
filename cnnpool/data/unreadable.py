"""Images that cannot be read: named on the screen and in a file."""

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from cnnpool.data.errors import DataError
from cnnpool.tables import printable

SHOWN = 10
"""Unreadable images that are named on the screen; a file names them all."""
REMEDY = "repair or remove {it}, or go on without {it} by data.skip_unreadable=true"

_log = logging.getLogger(__name__)


def note_of(skipped: Mapping[str, str], root: Path, folder: Path, *, skip: bool) -> str:
    """A note on the images that cannot be read, all of which a file in ``folder`` names.

    Args:
        skipped: path below ``root`` -> why it cannot be read; at least one.
        root: folder of the data.
        folder: of the list.
        skip: whether a run goes on without them.

    Raises:
        DataError: if they are not to be skipped; those named first are in the log.
    """
    lines = [f"{printable(path)}: {said}" for path, said in skipped.items()]
    place = _keep_list(folder / "unreadable.txt", lines)
    count = "1 image" if len(lines) == 1 else f"{len(lines):,} images"
    if skip:
        return f"{count} left out, which cannot be read (data.skip_unreadable){place and f': see {place}'}"
    if len(lines) == 1:
        path, said = next(iter(skipped.items()))
        raise DataError(f"cannot decode {root / path} ({said}): {REMEDY.format(it='it')}")
    more = [f"and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
    _say_once(f"cannot decode, below {root}:\n  " + "\n  ".join([*lines[:SHOWN], *more]))
    where = f" (all in {place})" if place else ""
    raise DataError(f"{count} of {root} cannot be decoded{where}: {REMEDY.format(it='them')}")


@cache
def _say_once(text: str) -> None:
    """Log what every job of a sweep would repeat."""
    _log.error("%s", text)


def _keep_list(path: Path, lines: Sequence[str]) -> str:
    """Write ``lines`` to ``path``; its name, or nothing where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        _log.warning("cannot keep the list of unreadable images in %s (%s)", path.parent, error)
        return ""
    return str(path)
