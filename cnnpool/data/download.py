"""Fetching published data sets through torchvision, which checks what it fetches."""

import logging
from pathlib import Path

from filelock import FileLock

from cnnpool.data.base import DataError

_log = logging.getLogger(__name__)


def fetch(root: Path, dataset: str, folder: Path) -> None:
    """Download the torchvision data set called ``dataset`` into ``root``; processes take turns.

    Args:
        root: created if missing.
        dataset: e.g. ``MNIST``.
        folder: where its files belong, for the message.

    Raises:
        DataError: if that fails; the message says where to put the files by hand.
    """
    _log.info("downloading %s to %s", dataset, root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{dataset}.lock"):
            # Imported here because it costs more than a second, and only a first run needs it.
            from torchvision import datasets

            getattr(datasets, dataset)(root, train=False, download=True)
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"cannot download {dataset} ({type(error).__name__}: {reason}): without a network, put its files "
            f"into {folder.absolute()} by hand, or name the folder that holds them by data.root=FOLDER"
        ) from error
