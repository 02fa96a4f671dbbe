"""The images of a data set as a LightningDataModule: loaders per process, the position in an epoch."""

from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.trainer.states import TrainerStatus

from cnnpool.data import Dataset, Loader, Split


class Images(LightningDataModule):
    """Training, validation and test images in whole batches, with a position saved in checkpoints.

    Each process takes its share of a batch, in ``accumulate`` parts. A GPU holds images that fill at most a
    quarter of its free memory.
    """

    def __init__(self, dataset: Dataset, *, accumulate: int = 1, channels_last: bool = True):
        super().__init__()
        self.dataset = dataset
        self.accumulate = accumulate
        self.channels_last = channels_last
        self._loader: Loader | None = None
        self._position: dict[str, int] = {}

    @property
    def batches_of_epoch(self) -> int:
        return len(self._train_loader())

    def train_dataloader(self) -> Loader:
        """Training batches, in a loop without a Trainer those of the epoch after that of the last loader."""
        before, self._loader = self._loader, self._on_device(self._train_loader())
        # A Trainer sets the epoch, but may iterate before: to measure statistics of the first one.
        if before and not (self.trainer and self.trainer.state.status == TrainerStatus.RUNNING):
            self._loader.order.go_to(before.order.epoch + before.order.begun)
        # A checkpoint is restored before any loader exists.
        if self._position:
            self._loader.load_state_dict(self._position)
            self._position = {}
        return self._loader

    def val_dataloader(self) -> Loader | list[Loader]:
        return self._plain(self.dataset.val) if len(self.dataset.val) else []

    def test_dataloader(self) -> Loader:
        return self._plain(self.dataset.test)

    def predict_dataloader(self) -> Loader:
        """The test images; predictions are in the order of ``dataset.test``."""
        return self.test_dataloader()

    def state_dict(self) -> dict[str, Any]:
        return self._loader.state_dict() if self._loader else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._position = dict(state_dict)

    @property
    def _shard(self) -> tuple[int, int] | None:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else None

    def _train_loader(self) -> Loader:
        return self.dataset.train_loader(
            shard=self._shard, parts=self.accumulate, channels_last=self.channels_last
        )

    def _plain(self, split: Split) -> Loader:
        loader = self.dataset.plain_loader(split, shard=self._shard, channels_last=self.channels_last)
        return self._on_device(loader)

    def _on_device(self, loader: Loader) -> Loader:
        device = self.trainer.strategy.root_device if self.trainer else torch.device("cpu")
        if device.type == "cuda":
            splits = (self.dataset.train, self.dataset.val, self.dataset.test)
            free, _ = torch.cuda.mem_get_info(device)
            loader.dataset.move(device, images=4 * sum(split.rows.nbytes for split in splits) <= free)
        return loader
