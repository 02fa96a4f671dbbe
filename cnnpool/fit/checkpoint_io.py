"""Checkpoints of a run for Lightning."""

from pathlib import Path
from typing import Any

from lightning.pytorch.plugins.io import CheckpointIO

from cnnpool.run_folder.checkpoint import load, save


class SafeCheckpointIO(CheckpointIO):
    """Saves and loads by ``cnnpool.run_folder.checkpoint``.

    Lightning's own goes through the temporary folder, which may be another file system, and torch.load does
    not compare the archive's checksums.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        save(Path(path), checkpoint)

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: Any = None
    ) -> dict[str, Any]:
        content: dict[str, Any] = load(Path(path), map_location)
        return content

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)
