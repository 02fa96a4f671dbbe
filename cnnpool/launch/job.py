"""Jobs of a command line and their outcomes: plain data that can be sent to any process."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

Workers = Annotated[int, Ge(1), Le(1024)]  # Number of processes or threads
FINE_TUNING = "fit=finetune"  # The default recipe of a job with ``model.weights``


@dataclass(frozen=True)
class Job:
    """One training."""

    folder: Path
    overrides: list[str]  # The job's own part of the command line
    settings: dict[str, Any]
    sweep: bool = False  # Whether it is one of several jobs of one command

    @property
    def devices(self) -> int:
        """Number of devices for training, with one process each."""
        devices = self.settings.get("fit", {}).get("devices", 1)
        if devices == -1:
            # All devices, which torch counts.
            import torch

            return max(1, torch.cuda.device_count())
        return devices if isinstance(devices, int) else 1

    @property
    def on_recipe(self) -> str:
        """A line about the fine-tuning recipe, if it applies; otherwise empty."""
        weights = self.settings.get("model", {}).get("weights")
        if weights is None or FINE_TUNING not in self.overrides:
            return ""
        return f"recipe {FINE_TUNING}, since model.weights is given; fit=default is for random weights"

    @property
    def name(self) -> str:
        """The run's folder below the output root, which may be a number."""
        return os.path.relpath(self.folder, str(self.settings.get("out", ".")))


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    run: str
    state: str  # done, tried, failed, stopped, refused or not run
    message: str  # The result or the error, in one line
    status: int  # As an exit status: 0, 1 failed, 2 a mistake, 128 + a signal
    log: Path
    out_of_memory: bool = False  # No other job should start in the same process
    in_use: bool = False  # Refused, since another process runs it
    no_download: bool = False  # Other jobs with the same data would fail too
    diverged: bool = False  # By a DivergedError
    accuracy: float | None = None  # On the test images, 0..1
    trained: bool = False  # Rather than found done or refused


class NoDownload:
    """Data that one command's jobs failed to download, so that no other job tries again."""

    def __init__(self) -> None:
        self._failed: list[tuple[Any, Outcome]] = []

    def note(self, job: Job, outcome: Outcome) -> None:
        """Record the ``outcome`` of ``job`` if its download failed, for each data set once."""
        if outcome.no_download and not self.outcome(job):
            self._failed.append((job.settings["data"], outcome))

    def outcome(self, job: Job) -> Outcome | None:
        """The outcome of a job whose data could not be downloaded before; None for other jobs."""
        for data, failed in self._failed:
            if data == job.settings.get("data"):
                return replace(failed, run=job.name)
        return None
