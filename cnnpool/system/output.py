"""Standard output and error that survive their reader: a closed pipe ends no command."""

import errno
import io
import os
import re
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import Any

CONTROL = re.compile(
    r"(?!\x1b\[[0-9;]*[mK]|\x1b\[A)[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
"""Characters that control a terminal or reverse text, except colours, redrawn lines, and line ends."""
LONGEST = 120


def visible(text: str) -> str:
    """``text`` with terminal control characters escaped; colours and redrawn lines stay."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shortened(name: str | bytes) -> str:
    """A path or a setting, shortened in the middle if it is too long."""
    text = os.fsdecode(name)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 43]}...{text[-40:]}"


class Visible(io.TextIOWrapper):
    """Text without terminal control characters, whatever names of files and classes it contains."""

    def write(self, text: str, /) -> int:
        super().write(visible(text))
        return len(text)


class Lasting(io.FileIO):
    """A file descriptor whose writes never fail: after an error output is discarded; never closed."""

    failure: OSError | None = None  # The first error, unless the reader had closed the pipe

    def __init__(self, descriptor: int):
        super().__init__(descriptor, "w", closefd=False)

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                self.failure = error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def ignore_broken_pipes(*, by_lines: bool = False) -> dict[str, Lasting]:
    """Make stdout, written line by line if asked, and stderr ignore broken pipes; their raw files by name."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The next opened file would get this number, and with it everything printed here or in a child.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    found = {}
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
            continue
        raw = found[name] = Lasting(stream.fileno())
        at_once = by_lines or name == "stderr" or raw.isatty()
        text = Visible(io.BufferedWriter(raw), stream.encoding, "backslashreplace", line_buffering=at_once)
        setattr(sys, name, text)
    return found


def write_error(streams: dict[str, Lasting], names: Collection[str] = ("stdout",)) -> str:
    """A line on output that could not be written to the streams called ``names``; empty if there was none."""
    for name in names:
        with suppress(ValueError):
            getattr(sys, name).flush()
        if name in streams and (failure := streams[name].failure):
            return f"{failure.strerror}; the rest of it is lost"
    return ""
