"""status.json: the state of a run during and after training."""

import os
import platform
import re
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from cnnpool.json_text import validated
from cnnpool.run_folder.layout import STATUS, temp_prefix
from cnnpool.run_folder.reading import read_json
from cnnpool.system.atomic import write_json

# How the error of a run begins that diverged in a version that did not record that.
EARLIER = re.compile(r"(the loss|a weight or statistic) became ")
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
    diverged: bool | None = None  # Whether a DivergedError ended it; an earlier version recorded nothing


def write(
    folder: Path,
    state: State,
    error: str | None = None,
    status: int | None = None,
    *,
    diverged: bool = False,
) -> None:
    """Write the ``state`` of the run in ``folder``, which this process trains."""
    content = asdict(Status(state, error, status, os.getpid(), time.time(), platform.node(), diverged))
    # After a power cut the state "running" would be wrong anyway.
    write_json(folder / STATUS, content, prefix=temp_prefix(folder), flush=state != "running")


def read(folder: Path) -> Status | None:
    """The status in ``folder``; None if there is none, a DamagedError if it is none."""
    found = read_json(folder / STATUS, partial(validated, Status))
    if found and found.diverged is None:
        found = replace(found, diverged=found.state == "failed" and bool(EARLIER.match(found.error or "")))
    return found
