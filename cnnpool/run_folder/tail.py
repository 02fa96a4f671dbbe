"""metrics.jsonl of a run that is going on: each time only what was added is read."""

import os
from pathlib import Path

from cnnpool.run_folder.layout import METRICS
from cnnpool.run_folder.metrics import Record, record


class Tail:
    """The records of one run's metrics.jsonl so far; not for several threads at once.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path):
        self._path = folder / METRICS
        self._records: list[Record] = []
        self._read = 0
        self._last = b""

    def records(self) -> list[Record]:
        """Every whole line that can be read, the oldest first; none while there is no file."""
        try:
            with self._path.open("rb") as file:
                # A run that is resumed writes the file anew: then the last line read is another, or gone.
                start = self._read - len(self._last)
                file.seek(start)
                if file.read(len(self._last)) != self._last:
                    self._forget()
                    file.seek(0, os.SEEK_SET)
                added = file.read()
        except OSError:
            self._forget()
            return []
        *lines, _unfinished = added.split(b"\n")
        self._records += [found for line in lines if (found := record(line)) is not None]
        if lines:
            self._read += sum(map(len, lines)) + len(lines)
            self._last = lines[-1] + b"\n"
        return self._records

    def _forget(self) -> None:
        self._records, self._read, self._last = [], 0, b""
