"""Standard output and error that outlive their reader: what nobody reads any more ends no command."""

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any


class Lasting(io.FileIO):
    """A file descriptor to which writing never fails: after an error it leads nowhere.

    Args:
        descriptor: stays open when this is closed.
    """

    failure: OSError | None = None
    """The first error, unless it was that the reader had left."""

    def __init__(self, descriptor: int):
        super().__init__(descriptor, "w", closefd=False)

    def write(self, data: Any, /) -> int:
        """Write ``data``, to nowhere once that has failed."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                self.failure = error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def outlive_readers() -> dict[str, Lasting]:
    """Make ``sys.stdout`` and ``sys.stderr`` last; returns what is behind those that were open, by name."""
    found = {}
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
            continue
        raw = found[name] = Lasting(stream.fileno())
        by_lines = name == "stderr" or raw.isatty()
        text = io.TextIOWrapper(
            io.BufferedWriter(raw), stream.encoding, "backslashreplace", line_buffering=by_lines
        )
        setattr(sys, name, text)
    return found


def lost(streams: dict[str, Lasting]) -> str:
    """A line on what could not be written to ``sys.stdout``, if anything."""
    with suppress(ValueError):
        sys.stdout.flush()
    failure = streams["stdout"].failure if "stdout" in streams else None
    return f"standard output: {failure.strerror}; the rest of it is lost" if failure else ""
