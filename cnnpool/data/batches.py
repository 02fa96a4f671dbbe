"""Batches of images: reproducible, resumable, without worker processes."""

import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from cnnpool.data.augment import augment, centre
from cnnpool.data.auto_augment import Policy
from cnnpool.data.base import Split
from cnnpool.data.draw import generator
from cnnpool.data.mix import mix
from cnnpool.data.prefetch import prefetched

SLOW = 1 << 21
"""Values of a batch, as it is read, from which on it is made in a thread."""


class Batches:
    """Normalised batches of a split: yields (images, labels), images (B, C, H, W) in channels_last format.

    The order of an epoch depends on (seed, epoch) and the augmentation of a batch on (seed, epoch, step),
    drawn from generators of its own: nothing else can change them, and a run that stopped anywhere goes on
    with exactly the batches it had not seen. The position is two integers, ``state_dict``.

    An iteration begins at the first batch (after ``load_state_dict``: at the next one), and reads the epoch
    when its first batch is asked for, not before. Batches that take long to make, of many pixels or of images
    that are not in memory, are made in a thread, some of them before they are needed.

    Args:
        split: the images.
        batch_size: images per batch, >= 1.
        mean: what is subtracted from each channel, (C,), in units where white is 1.
        std: what each channel is divided by, (C,), > 0.
        seed: of order and augmentation.
        shuffle: a new order every epoch; false for the split's own order.
        drop_last: leave out a last batch that is not full; false keeps it.
        crop, shift, flip, random_resized_crop, auto_augment, color_jitter: random augmentation, see
            ``cnnpool.data.augment.augment``.
        mixup, cutmix: see ``cnnpool.data.mix.mix``; labels are then the shares of classes, (B, num_classes).
        num_classes: needed for these two.
        size: (H, W) of the part of each image that is handed out; None for the whole.
        random_place: that part lies anywhere (or is made by ``random_resized_crop``); false for the centre.
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
        random_resized_crop: tuple[float, float] | None = None,
        auto_augment: Policy | None = None,
        color_jitter: float = 0.0,
        mixup: float = 0.0,
        cutmix: float = 0.0,
        num_classes: int = 0,
        size: tuple[int, int] | None = None,
        random_place: bool = False,
        shard: tuple[int, int] = (0, 1),
        dtype: torch.dtype = torch.float32,
    ):
        channels, *whole = split.shape
        self.size = height, width = size or (whole[0], whole[1])
        if height > whole[0] or width > whole[1]:
            raise ValueError(f"size must be at most that of the images, {whole[0]}x{whole[1]}, got {size}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if not 0 <= shard[0] < shard[1]:
            raise ValueError(f"shard must be (rank, world) with 0 <= rank < world, got {shard}")
        for key, pixels in (("crop", crop), ("shift", shift)):
            if not 0 <= pixels < min(height, width):
                raise ValueError(f"{key} must be at least 0 and less than {min(height, width)}, got {pixels}")
        self.split, self.batch_size, self.seed, self.shuffle = split, batch_size, seed, shuffle
        self.drop_last, self.shard, self.dtype = drop_last, shard, dtype
        self.augmentation: dict[str, Any] = {
            **{"crop": crop, "shift": shift, "flip": flip, "random_resized_crop": random_resized_crop},
            **{"auto_augment": auto_augment, "color_jitter": color_jitter},
        }
        self.mixing: dict[str, float] = {"mixup": mixup, "cutmix": cutmix}
        self.num_classes = num_classes
        self.random_place = random_place
        self._scale, self._bias = (
            v.repeat(height * width).to(split.labels.device) for v in _normalisation(mean, std, channels)
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
        # A thread may still make batches of this epoch when the next one has been set.
        start, self._start, epoch = self._start, 0, self.epoch
        order = self._order().to(self.split.labels.device)

        def read(step: int) -> tuple[Tensor, Tensor]:
            return self._read(order[step * self.batch_size : (step + 1) * self.batch_size])

        def make(step: int) -> tuple[Tensor, Tensor]:
            return self._finished(*read(step), epoch, step)

        steps = range(start, len(self))
        batches: Iterator[tuple[Tensor, Tensor]]
        if not self._is_slow:
            batches = map(make, steps)
        elif self._device.type == "cpu":
            # Of numbers that take four times the memory of pixels, no more than one at a time.
            batches = prefetched(make, steps, ahead=1)
        else:
            # A GPU finishes them: only the reading and sending takes long.
            read_batches = prefetched(read, steps)
            batches = (
                self._finished(*batch, epoch, step) for step, batch in zip(steps, read_batches, strict=True)
            )
        for step, batch in zip(steps, batches, strict=True):
            self._step = step + 1
            yield batch

    @property
    def batch_sampler(self) -> SimpleNamespace:
        """Place in which Lightning looks for ``set_epoch``, before the first batch of an epoch."""
        return SimpleNamespace(sampler=self)

    @property
    def _is_slow(self) -> bool:
        """Whether a batch is better made while the network trains on another."""
        if not self.split.rows.in_memory or self._device != self.split.labels.device:
            return True
        return self._device.type == "cpu" and self.batch_size * math.prod(self.split.shape) >= SLOW

    @property
    def _device(self) -> torch.device:
        return self._scale.device

    def move(self, device: torch.device, *, images: bool = True) -> None:
        """Make the batches on ``device`` from now on: of the same draws.

        Args:
            device: that takes the batches.
            images: whether all images are kept there too; else each batch is sent when it is needed.
        """
        if images:
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

    def _read(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels (B, H, W, C) and labels; pinned if they are to be sent to a GPU."""
        pixels, labels = self.split.rows.read(index), self.split.labels.index_select(0, index)
        if self._device.type == "cuda" and labels.device.type == "cpu":
            return pixels.pin_memory(), labels.pin_memory()
        return pixels, labels

    def _finished(self, pixels: Tensor, labels: Tensor, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        """The batch of pixels and labels as they were read."""
        labels = labels.to(self._device, non_blocking=True)
        return self._mixed(self._batch(pixels, epoch, step), labels, epoch, step)

    def _mixed(self, images: Tensor, labels: Tensor, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        if not any(self.mixing.values()):
            return images, labels
        # Apart from the augmentation, whose draws it leaves as they are.
        chance = generator(self.seed, epoch, step, *self.shard, 1)
        return mix(images, labels, chance, num_classes=self.num_classes, **self.mixing)

    def _batch(self, pixels: Tensor, epoch: int, step: int) -> Tensor:
        pixels = pixels.to(self._device, non_blocking=True)
        images = pixels.permute(0, 3, 1, 2)
        if not self.random_place:
            images = centre(images, self.size)
        if any(self.augmentation.values()) or self.size != tuple(images.shape[2:]):
            chance = generator(self.seed, epoch, step, *self.shard)
            images = augment(images, chance, size=self.size, **self.augmentation)
        pixels = images.permute(0, 2, 3, 1).contiguous()
        flat = torch.addcmul(self._bias, pixels.flatten(1).float(), self._scale).to(self.dtype)
        return flat.view(pixels.shape).permute(0, 3, 1, 2)


def _normalisation(mean: Sequence[float], std: Sequence[float], channels: int) -> tuple[Tensor, Tensor]:
    """The factor and the summand of each channel that normalise values of 0 to 255.

    They are repeated for every value of an image: a broadcast over 3 channels does not vectorise.

    Raises:
        ValueError: if these are not ``channels`` numbers each, ``std`` above 0.
    """
    if len(mean) != channels or len(std) != channels or not min(std) > 0:
        raise ValueError(
            f"mean and std must be {channels} numbers, std above 0, got {tuple(mean)} and {tuple(std)}"
        )
    scale = 1 / (255 * torch.tensor(std, dtype=torch.float64))
    return scale.float(), (-255 * torch.tensor(mean, dtype=torch.float64) * scale).float()
