"""Errors of a run's folder; every message is one line that says how to proceed."""

AGAIN = "rerun the same command"


class DamagedError(ValueError):
    """A file of a run differs from what the run wrote; ``reason`` is the part of the message on the file."""

    def __init__(self, message: str, reason: str = ""):
        super().__init__(message)
        self.reason = reason


class InUseError(ValueError):
    """Another running process uses the folder."""


class OccupiedError(ValueError):
    """The folder belongs to another run, or to no run. Nothing in it has been changed."""


class DivergedError(RuntimeError):
    """The loss, a weight or a statistic of a training is no longer finite."""


class LostError(RuntimeError):
    """Another process deleted or altered a file of a run while the run was in progress."""
