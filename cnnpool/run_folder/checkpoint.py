"""Checkpoints, read as plain tensors and numbers once their checksums are right; no code of a file is run."""

import zipfile
from pathlib import Path
from typing import Any

import torch


class DamagedError(ValueError):
    """A checkpoint that cannot be used as it is."""


def load(path: Path, map_location: Any = "cpu") -> Any:
    """The content of the checkpoint at ``path``. ``torch.load`` alone does not compare the checksums.

    Raises:
        DamagedError: if the file is missing, cut, altered, or holds more than plain tensors and numbers.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken is None:
            return torch.load(path, map_location=map_location, weights_only=True)
    except OSError as error:
        raise DamagedError(f"cannot read the checkpoint {path}: {error.strerror or error}") from None
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise DamagedError(
            f"{path} is damaged, or no checkpoint of plain weights ({type(error).__name__}: {reason})"
        ) from error
    raise DamagedError(f"{path} is damaged: {broken} fails its checksum")
