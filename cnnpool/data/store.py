"""Where the pixels of many images are kept: in memory, in a file, or nowhere."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Literal

from cnnpool.data.base import Raw, Split
from cnnpool.data.decoded import DecodedDraft, Files
from cnnpool.data.draft import Draft, FileDraft, MemoryDraft
from cnnpool.data.errors import DataError
from cnnpool.data.rows import InMemory, Shape
from cnnpool.system.disk import explained
from cnnpool.system.hardware import free_memory

Stream = Literal["auto"] | bool
SHARE = 4
"""A data set is held in memory by itself if it takes at most this part of what is free."""
GIB = 1 << 30

_log = logging.getLogger(__name__)


def begin(files: Files, shape: Shape, part: Path | None, stream: Stream) -> Draft:
    """A draft for the images of ``files``: in the file ``part`` where the disk has room for it.

    Without room, images are held in memory if they fit there twice, as a run needs while it starts, and are
    else decoded anew each time they are needed.

    Args:
        files: to be decoded.
        shape: (H, W, C) of each image.
        part: file to write; None if nothing can be written.
        stream: true to hold none in memory; false to hold all.

    Raises:
        DataError: if all shall be held in memory, and do not fit.
    """
    count = len(files.places)
    nbytes = count * shape[0] * shape[1] * shape[2]
    if stream is False:
        _check_memory(count, shape)
    if part is not None:
        try:
            return FileDraft(part, count, shape)
        except OSError as error:
            part.unlink(missing_ok=True)
            _log.warning(
                "cannot keep decoded images in %s (%s)",
                part.parent,
                explained(error, part, nbytes).strerror,
            )
    if stream is False or (stream == "auto" and _fits(nbytes, 2)):
        return MemoryDraft(count, shape)
    return DecodedDraft(files, shape)


def hold(raw: Raw, stream: Stream) -> Raw:
    """``raw`` in memory, unless ``stream`` is true or it takes more than a quarter of the free memory.

    Raises:
        DataError: if all shall be held in memory, and do not fit.
    """
    splits = raw.splits
    nbytes = sum(split.rows.nbytes for split in splits.values())
    if raw.in_memory or stream is True or (stream == "auto" and not _fits(nbytes, SHARE)):
        return raw
    if stream is False:
        _check_memory(sum(map(len, splits.values())), raw.train.rows.shape)
    held = {part: Split(InMemory(split.rows.whole()), split.labels) for part, split in splits.items()}
    return replace(raw, train=held["train"], test=held["test"], val=held.get("val"))


def _fits(nbytes: int, times: int) -> bool:
    free = free_memory()
    return free is None or times * nbytes <= free


def _check_memory(images: int, shape: Shape) -> None:
    """Raise unless so many images fit into memory twice, as they lie there while a run cuts its splits."""
    needed, free = 2 * images * shape[0] * shape[1] * shape[2], free_memory()
    if free is not None and needed > free:
        raise DataError(
            f"{images:,} images of {shape[0]}x{shape[1]} take {needed / GIB:.1f} GiB of memory while a run "
            f"starts, and {max(free, 0) / GIB:.1f} GiB are free: read them from disk by data.stream=auto, or "
            "lower data.size"
        )
