"""Images for torch's DataLoader: whole batches at once, in reproducible orders with reproducible changes."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, SequentialSampler

from cnnpool.data.augment import centre, send
from cnnpool.data.base import Split
from cnnpool.data.draws import Draws, generator
from cnnpool.data.threads import in_threads

SLOW = 1 << 21  # Number of values of a batch, as read, from which on a thread prepares it
Item = tuple[int, int]  # (epoch, index) of an image
Batch = tuple[Tensor, Tensor]  # Normalised images (B, C, H, W); labels (B,), or shares (B, num_classes)


class ImageDataset(Dataset[Batch]):
    """Normalised images of a split by (epoch, index), one batch at a time.

    The augmentation of an image is a function of (seed, epoch, index) alone, computed for a batch at once,
    so the order, the number of workers or processes, and interruptions do not change it.

    Args:
        mean, std: subtracted from each channel, and its divisor, (C,), in units where white is 1.
        augment: changes images, (N, C, H', W') of uint8, to (N, C, *size); None to take their central part.
        mix: mixes the images of a batch and their labels, from a generator on the CPU; None for none.
        size: (H, W) of the returned images; None for that of the split.
    """

    def __init__(
        self,
        split: Split,
        *,
        mean: Sequence[float],
        std: Sequence[float],
        seed: int = 0,
        augment: Callable[[Tensor, Draws], Tensor] | None = None,
        mix: Callable[[Tensor, Tensor, torch.Generator], Batch] | None = None,
        size: tuple[int, int] | None = None,
        channels_last: bool = True,
    ):
        self.size = height, width = size or split.shape[1:]
        self.split, self.seed, self.augment, self.mix = split, seed, augment, mix
        self.channels_last = channels_last
        scale = 1 / (255 * torch.tensor(std, dtype=torch.float64))
        bias = -255 * torch.tensor(mean, dtype=torch.float64) * scale
        # Repeated for every value of an image: broadcasting over 3 channels does not vectorise.
        self._scale, self._bias = (
            one.float().repeat(height * width).to(split.labels.device) for one in (scale, bias)
        )

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, items: Sequence[Item] | Sequence[int]) -> Batch:
        pairs = [(0, item) if isinstance(item, int) else item for item in items]
        epoch = pairs[0][0]
        index = torch.tensor([number for _, number in pairs])
        here = index.to(self.split.labels.device)
        pixels, labels = self.split.rows.read(here), self.split.labels.index_select(0, here)
        images = self._images(send(pixels, self.device), epoch, index)
        labels = send(labels, self.device)
        # From its own generator, which leaves the draws of the augmentation unchanged.
        return self.mix(images, labels, generator(self.seed, *pairs[0], 1)) if self.mix else (images, labels)

    def move(self, device: torch.device, *, images: bool = True) -> None:
        """Make batches on ``device`` from now on; with ``images`` all images are kept there too."""
        if images:
            self.split = self.split.to(device)
        self._scale, self._bias = self._scale.to(device), self._bias.to(device)

    @property
    def device(self) -> torch.device:
        return self._scale.device

    def ahead(self, batch_size: int) -> int:
        """Number of batches to prefetch in a thread, because they are slow to make."""
        if not self.split.rows.in_memory or self.device != self.split.labels.device:
            return 3
        # At most one batch of floats, which take four times the memory of pixels.
        slow = self.device.type == "cpu" and batch_size * math.prod(self.split.shape) >= SLOW
        return 1 if slow else 0

    def _images(self, pixels: Tensor, epoch: int, index: Tensor) -> Tensor:
        images = pixels.permute(0, 3, 1, 2)
        if self.augment is None:
            images = centre(images, self.size)
        else:
            images = self.augment(images, Draws(self.seed, epoch, index))
        pixels = images.permute(0, 2, 3, 1).contiguous()
        flat = torch.addcmul(self._bias, pixels.flatten(1).float(), self._scale)
        images = flat.view(pixels.shape).permute(0, 3, 1, 2)
        if self.channels_last:
            return images
        # A copy: one-channel images are contiguous in both formats, and convolutions decide by the strides.
        return images.clone(memory_format=torch.contiguous_format)


class EpochSampler(DistributedSampler[Item]):
    """(epoch, index) of one process's images, in an order that depends on (seed, epoch) alone.

    Each iteration is of the next epoch, until someone calls ``set_epoch``. It is a
    ``DistributedSampler`` so that every Trainer calls its ``set_epoch`` and none replaces it; unlike torch's
    it repeats no image. Items contain the epoch, because persistent workers never see ``set_epoch``.
    Of ``shard``, (rank, world), every world-th of ``images`` images is taken, from rank on; some are dropped
    until all shuffled shards are equally long, and until the length is a ``multiple``. None is (0, 1), and
    a ValueError where several processes iterate, each of which would get all images.
    """

    def __init__(
        self,
        images: int,
        *,
        seed: int = 0,
        shuffle: bool = False,
        shard: tuple[int, int] | None = (0, 1),
        multiple: int = 1,
    ):
        rank, world = shard or (0, 1)
        self.shared = shard is not None
        super().__init__(range(images), world, rank, shuffle, seed)  # type: ignore[arg-type]
        own = (images + (0 if shuffle else world - 1 - rank)) // world
        self.images, self.length = images, own // multiple * multiple
        self.start = 0  # Images of the epoch that the next iteration skips: they were returned before
        self.begun = False  # Whether the epoch was iterated over since it was set
        self.led = False  # Whether someone sets the epochs, as a Trainer does: iterations then stay in theirs

    def __len__(self) -> int:
        return self.length

    def set_epoch(self, epoch: int) -> None:
        """Start ``epoch``, and stay in it; if it is the current one, keep the position within it."""
        self.led = True
        self.go_to(epoch)

    def go_to(self, epoch: int) -> None:
        """As ``set_epoch``, but iterations go on to the next epochs."""
        if epoch != self.epoch:
            self.start = 0
        self.begun = False
        super().set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        if not self.shared and processes()[1] > 1:
            raise ValueError(
                f"each of {processes()[1]} processes would get all images of this loader: give the Trainer "
                "the data module itself, datamodule=..., or make it with shard=(rank, world)"
            )
        self.go_to(self.epoch + (self.begun and not self.led))
        self.begun, start, self.start = True, self.start, 0
        order = torch.arange(self.images)
        if self.shuffle:
            order = torch.randperm(self.images, generator=generator(self.seed, self.epoch))
        own = order[self.rank :: self.num_replicas][: self.length][start:].tolist()
        # Plain places where the epoch changes nothing, as a writer of predictions wants them.
        return iter([(self.epoch, index) for index in own] if self.shuffle else own)


class Loader(DataLoader[Batch]):
    """A ``DataLoader`` of whole batches with a position, ``state_dict``, from which it can resume.

    Its iterations are generators: nothing is read before the first batch is requested, because Lightning
    starts an iteration before it sets the epoch. Slow batches are prefetched by a thread, which needs no
    copy of the images and starts no process: with two worker processes, images of a folder arrived at 0.5 to
    0.9 times the rate (two cores, 960 photographs).

    A Trainer makes a loader anew, by its class and torch's own arguments, here ``options``: with a sampler in
    order (``overfit_batches``), or with batches of which it notes the indices (``predict``).
    """

    dataset: ImageDataset
    batch_sampler: BatchSampler

    def __init__(self, dataset: ImageDataset, *, sampler: Any = None, batch_size: int = 1, **options: Any):
        if isinstance(sampler, SequentialSampler):
            sampler = EpochSampler(len(dataset), shard=processes())
        # A separate generator: each iteration would otherwise draw from torch's global one.
        own: dict[str, Any] = {"collate_fn": as_it_is, "generator": torch.Generator()}
        super().__init__(dataset, batch_size=batch_size, sampler=sampler, **own | options)
        if len(self) == 0:
            devices, size = self.order.num_replicas, self.batch_sampler.batch_size
            each = f" for each of {devices} devices" if devices > 1 else ""
            remedy = "use fewer devices or more images" if each else "lower batch_size"
            raise ValueError(f"no batch of {size} in {len(dataset)} images{each}: {remedy}")
        self._handed_out = 0

    @property
    def order(self) -> EpochSampler:
        sampler = self.batch_sampler.sampler
        assert isinstance(sampler, EpochSampler)
        return sampler

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        self._handed_out = self.order.start // self.batch_sampler.batch_size
        batches: Iterator[Batch] = super().__iter__()
        made = batches
        if ahead := self.dataset.ahead(self.batch_sampler.batch_size):
            count = range(len(self) - self._handed_out)
            batches = in_threads(lambda _: next(made), count, ahead=ahead, workers=1)
        for batch in batches:
            self._handed_out += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """The epoch, and the number of batches returned in it."""
        return {"epoch": self.order.epoch, "batch": self._handed_out}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume after the batches counted in ``state``; after a whole epoch, with the next one."""
        epoch, batch = state["epoch"], state["batch"]
        if not 0 <= batch <= len(self):
            raise ValueError(
                f"cannot resume after batch {batch}: an epoch has {len(self)} (other data or batch_size?)"
            )
        self._handed_out = batch % len(self)
        self.order.go_to(epoch + batch // len(self))
        self.order.start = self._handed_out * self.batch_sampler.batch_size


def processes() -> tuple[int, int]:
    """(rank, world) of torch's process group, (0, 1) without one."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def as_it_is(batch: Any) -> Any:
    """Return ``batch`` unchanged: the ``collate_fn`` of loaders of ``ImageDataset``."""
    return batch
