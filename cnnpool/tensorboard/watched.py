"""Files that a process writes while it lives, read again when they have changed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from cnnpool.run_folder.errors import DamagedError
from cnnpool.system.lock_file import is_locked
from cnnpool.tensorboard.scan import Found, Kind, Signature

Content = TypeVar("Content")


@dataclass(frozen=True)
class Watched(Generic[Content]):
    """A file as it is now.

    Args:
        path: of the file.
        signature: another one whenever it has changed.
        lives: whether the process that wrote it goes on.
        content: None where it is damaged, or gone.
        reason: why it is damaged, in one line.
    """

    path: Path
    signature: Signature
    lives: bool
    content: Content | None = None
    reason: str = ""


def look(
    found: Iterable[Found],
    kind: Kind,
    read: Callable[[Path], Content | None],
    before: Sequence[Watched[Content]],
) -> tuple[Watched[Content], ...]:
    """The files of a ``kind`` in ``found``; those that have not changed since ``before`` are not read."""
    known = {(one.path, one.signature): one for one in before}
    return tuple(
        _one(each, read, known) for each in sorted(found, key=lambda each: each.path) if each.kind == kind
    )


def _one(
    found: Found,
    read: Callable[[Path], Content | None],
    known: Mapping[tuple[Path, Signature], Watched[Content]],
) -> Watched[Content]:
    alive, old = is_locked(found.path), known.get((found.path, found.signature))
    if old:
        return old if old.lives == alive else replace(old, lives=alive)
    try:
        return Watched(found.path, found.signature, alive, read(found.path))
    except DamagedError as error:
        return Watched(found.path, found.signature, alive, reason=f"{error.reason or error}: delete it")
