"""Checkpoints that are either the old one or the whole new one, and are checked before use."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO

from cnnpool.run_folder.atomic import replace
from cnnpool.run_folder.checkpoint import load


class SafeCheckpointIO(CheckpointIO):
    """Writes beside the target, flushes to the disk, then renames; loads only what passes its checksums.

    Lightning's own goes through the temporary folder, which may be another file system, and torch.load does
    not compare the archive's checksums.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            replace(part, path)
        except BaseException as error:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise OSError(f"cannot write the checkpoint {path}: {error.strerror or error}") from error
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: Any = None
    ) -> dict[str, Any]:
        return load(Path(path), map_location)

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)
