"""train.log: a run's messages, written in addition to stdout."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cnnpool.run_folder import layout
from cnnpool.system.output import visible
from cnnpool.system.progress import CLEAR, LINES_S

DOWNLOADS = "cnnpool.data.published"  # This logger's messages always pass: runs share no download


class RunLog(logging.FileHandler):
    """A log file whose write errors do not end the run, without terminal control characters."""

    failure: OSError | None = None  # The first error

    def __init__(self, path: Path):
        super().__init__(path, delay=True, encoding="utf-8", errors="backslashreplace")

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        # The file is opened by the first message, and that error is not handled.
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(error := sys.exception(), OSError):
            return super().handleError(record)
        self.failure = self.failure or error

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:
            self.failure = self.failure or error


class Sparse(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._spoken = time.monotonic()

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        wanted = record.levelno >= logging.WARNING or record.name == DOWNLOADS
        if not wanted and now - self._spoken < LINES_S:
            return False
        self._spoken = now
        return True


@contextmanager
def logged(folder: Path, *, sparse: bool = False) -> Iterator[RunLog]:
    """Log to the run's file while the job runs; if ``sparse``, stdout gets a line per minute and warnings."""
    console, file = logging.StreamHandler(sys.stdout), RunLog(folder / layout.LOG)
    # A terminal's line may contain a progress bar; the next batch draws it again below.
    wiped = CLEAR if sys.stdout.isatty() else ""
    console.setFormatter(logging.Formatter(f"{wiped}%(message)s"))
    if sparse:
        console.addFilter(Sparse())
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[console, file], force=True)
    # It reports each start with an empty font cache.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    try:
        yield file
    finally:
        for handler in (console, file):
            logging.getLogger().removeHandler(handler)
            handler.close()
