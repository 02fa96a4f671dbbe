"""status.json: the state of a run during and after training."""

import os
import platform
import re
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from cnnpool.json_text import validated
from cnnpool.run_folder.layout import STATUS, temp_prefix
from cnnpool.run_folder.reading import read_json
from cnnpool.system.atomic import write_json

DIVERGED = re.compile(r"(the loss|a weight or statistic) became ")  # As a DivergedError begins
State = Literal["running", "done", "stopped", "failed"]


@dataclass(frozen=True)
class Status:
    """The state of a run: its activity, or how it ended, with the error in one line and the exit status."""

    state: State
    error: str | None = None
    status: int | None = None
    pid: int | None = None
    time: float | None = None
    machine: str | None = None

    @property
    def diverged(self) -> bool:
        return self.state == "failed" and bool(DIVERGED.match(self.error or ""))


def write(folder: Path, state: State, error: str | None = None, status: int | None = None) -> None:
    """Write the ``state`` of the run in ``folder``, which this process trains."""
    content = asdict(Status(state, error, status, os.getpid(), time.time(), platform.node()))
    # After a power cut the state "running" would be wrong anyway.
    write_json(folder / STATUS, content, prefix=temp_prefix(folder), flush=state != "running")


def read(folder: Path) -> Status | None:
    """The status in ``folder``; None if there is none, a DamagedError if it is none."""
    return read_json(folder / STATUS, partial(validated, Status))
