"""Batches from images in memory: reproducible, resumable, without worker processes."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from cnnpool.data.augment import augment
from cnnpool.data.base import Split
from cnnpool.data.draw import generator


class Batches:
    """Normalised batches of a split: yields (images, labels), images (B, C, H, W) in channels_last format.

    The order of an epoch depends on (seed, epoch) and the augmentation of a batch on (seed, epoch, step),
    drawn from generators of its own: nothing else can change them, and a run that stopped anywhere goes on
    with exactly the batches it had not seen. The position is two integers, ``state_dict``.

    An iteration begins at the first batch (after ``load_state_dict``: at the next one), and reads the epoch
    when its first batch is asked for, not before.

    Args:
        split: the images.
        batch_size: images per batch, >= 1.
        mean: what is subtracted from each channel, (C,), in units where white is 1.
        std: what each channel is divided by, (C,), > 0.
        seed: of order and augmentation.
        shuffle: a new order every epoch; false for the split's own order.
        drop_last: leave out a last batch that is not full; false keeps it.
        crop, shift, flip: random augmentation, see ``cnnpool.data.augment.augment``.
        shard: (rank, world): every world-th image of the order, from rank on, for one of several processes.
            Shuffled shards are of equal length (up to world - 1 images are left out), others cover all.
        dtype: of the images that are handed out.

    Raises:
        ValueError: if a number is out of range, or there would be no batch at all.
    """

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int,
        mean: Sequence[float],
        std: Sequence[float],
        seed: int = 0,
        shuffle: bool = False,
        drop_last: bool = False,
        crop: int = 0,
        shift: int = 0,
        flip: bool = False,
        shard: tuple[int, int] = (0, 1),
        dtype: torch.dtype = torch.float32,
    ):
        channels, height, width = split.images.shape[1:]
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if not 0 <= shard[0] < shard[1]:
            raise ValueError(f"shard must be (rank, world) with 0 <= rank < world, got {shard}")
        if len(mean) != channels or len(std) != channels or not min(std) > 0:
            raise ValueError(
                f"mean and std must be {channels} numbers, std above 0, got {tuple(mean)} and {tuple(std)}"
            )
        for key, pixels in (("crop", crop), ("shift", shift)):
            if not 0 <= pixels < min(height, width):
                raise ValueError(f"{key} must be at least 0 and less than {min(height, width)}, got {pixels}")
        self.split, self.batch_size, self.seed, self.shuffle = split, batch_size, seed, shuffle
        self.drop_last, self.shard, self.dtype = drop_last, shard, dtype
        self.augmentation: dict[str, Any] = {"crop": crop, "shift": shift, "flip": flip}
        # Constants for every value of an image, because a broadcast over 3 channels does not vectorise.
        scale = 1 / (255 * torch.tensor(std, dtype=torch.float64))
        bias = -255 * torch.tensor(mean, dtype=torch.float64) * scale
        self._scale, self._bias = (
            v.repeat(height * width).to(split.images.device, torch.float32) for v in (scale, bias)
        )
        self.epoch = self._step = self._start = 0
        if len(self) == 0:
            raise ValueError(f"no batch of {batch_size} in {self.num_images} images: lower batch_size")

    @property
    def num_images(self) -> int:
        """Images of this shard, before ``drop_last``."""
        rank, world = self.shard
        return (len(self.split) + (0 if self.shuffle else world - 1 - rank)) // world

    def __len__(self) -> int:
        return (self.num_images + (0 if self.drop_last else self.batch_size - 1)) // self.batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        start, self._start = self._start, 0
        order = self._order().to(self.split.labels.device)
        for step in range(start, len(self)):
            index = order[step * self.batch_size : (step + 1) * self.batch_size]
            batch = self._batch(index, step)
            self._step = step + 1
            yield batch

    def move(self, device: torch.device) -> None:
        """Keep the images on ``device`` from now on, and make the batches there: of the same draws."""
        self.split = self.split.to(device)
        self._scale, self._bias = self._scale.to(device), self._bias.to(device)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of ``epoch``; if it is the current one, stay at the position within it."""
        if epoch != self.epoch:
            self.epoch, self._step, self._start = epoch, 0, 0

    def state_dict(self) -> dict[str, int]:
        """The position: the epoch and the batches handed out in it."""
        return {"epoch": self.epoch, "step": self._step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on after the batches that ``state`` says were handed out; after a whole epoch, with the next.

        Raises:
            ValueError: if an epoch has fewer batches than that.
        """
        epoch, step = state["epoch"], state["step"]
        if not 0 <= step <= len(self):
            raise ValueError(
                f"cannot resume after batch {step}: an epoch has {len(self)} (other data or batch_size?)"
            )
        self.epoch = epoch + step // len(self)
        self._step = self._start = step % len(self)

    def _order(self) -> Tensor:
        rank, world = self.shard
        if not self.shuffle:
            return torch.arange(rank, len(self.split), world)
        order = torch.randperm(len(self.split), generator=generator(self.seed, self.epoch))
        return order[rank::world][: self.num_images]

    def _batch(self, index: Tensor, step: int) -> tuple[Tensor, Tensor]:
        pixels = self.split.pixels.index_select(0, index)
        if any(self.augmentation.values()):
            chance = generator(self.seed, self.epoch, step, *self.shard)
            images = augment(pixels.permute(0, 3, 1, 2), chance, **self.augmentation)
            pixels = images.permute(0, 2, 3, 1)
        flat = torch.addcmul(self._bias, pixels.flatten(1).float(), self._scale).to(self.dtype)
        return flat.view(pixels.shape).permute(0, 3, 1, 2), self.split.labels.index_select(0, index)
