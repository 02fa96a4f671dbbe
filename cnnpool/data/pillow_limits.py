"""Pillow without its own limit of size, its warnings and its log, from one thread or several."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from PIL import Image


class _Limits:
    """Pillow's limits as they were set before they were taken away, and how many threads need that."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.before: tuple[int | None, int] = (None, logging.NOTSET)


_limits = _Limits()


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Take Pillow's own limit of size, its warnings and its log away: what is wrong is said here by file."""
    with warnings.catch_warnings(), unlimited_pillow():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def unlimited_pillow() -> Iterator[None]:
    """Take Pillow's own limit of size and its log away, from several threads at once if need be."""
    Image.init()
    log = logging.getLogger("PIL")
    with _limits.lock:
        if not _limits.users:
            _limits.before = Image.MAX_IMAGE_PIXELS, log.level
        _limits.users += 1
        Image.MAX_IMAGE_PIXELS = None
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        with _limits.lock:
            _limits.users -= 1
            if not _limits.users:
                Image.MAX_IMAGE_PIXELS, level = _limits.before
                log.setLevel(level)
