"""Why a run's folder cannot be used; every message is one line that says what to do."""

AGAIN = "give the same command again"


class DamagedError(ValueError):
    """A file of a run that is not what the run wrote.

    Args:
        message: one line.
        reason: the part of it that says what is wrong with the file.
    """

    def __init__(self, message: str, reason: str = ""):
        super().__init__(message)
        self.reason = reason


class InUseError(ValueError):
    """Another living process works in the folder."""


class OccupiedError(ValueError):
    """The folder is not this run's: another's, or no run's at all. Nothing in it has been touched."""


class LostError(RuntimeError):
    """A file of a run was deleted or altered by somebody else while the run went on."""
