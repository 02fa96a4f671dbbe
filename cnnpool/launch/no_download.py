"""One failed download for all jobs of a command that ask for the same data."""

from dataclasses import replace
from typing import Any

from cnnpool.launch.job import Job, Outcome


class NoDownload:
    """The data of one command's jobs that could not be downloaded."""

    def __init__(self) -> None:
        self._failed: list[tuple[Any, Outcome]] = []

    def note(self, job: Job, outcome: Outcome) -> None:
        """Keep the ``outcome`` of ``job`` if its download failed, the first one for these data."""
        if outcome.no_download and not self.outcome(job):
            self._failed.append((job.settings["data"], outcome))

    def outcome(self, job: Job) -> Outcome | None:
        """The outcome of a job that asks for data which could not be downloaded; None for other jobs."""
        for data, failed in self._failed:
            if data == job.settings.get("data"):
                return replace(failed, run=job.name)
        return None
