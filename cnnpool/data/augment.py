"""Augmentation of whole batches, exact and without loops over images, and mixing of their images."""

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cnnpool.data.auto_augment import Policy
from cnnpool.data.auto_augment import auto_augment as by_policy
from cnnpool.data.auto_augment import color_jitter as jitter
from cnnpool.data.draws import Draws

CHANGES = ("crop", "shift", "flip", "random_resized_crop", "auto_augment", "color_jitter")
RATIO = 4 / 3  # Largest aspect ratio of a random resized crop; its inverse is the smallest
TRIES = 10


def augment(
    x: Tensor,
    draws: Draws,
    *,
    crop: int = 0,
    shift: int = 0,
    flip: bool = False,
    random_resized_crop: tuple[float, float] | None = None,
    auto_augment: Policy | None = None,
    color_jitter: float = 0.0,
    size: tuple[int, int] | None = None,
) -> Tensor:
    """Each image of ``x``, (N, C, H, W) of uint8, changed by the options of ``Source``, as (N, C, *size).

    ``draws`` are the only randomness, so devices agree; an option that is off draws nothing.
    """
    whole = (x.shape[2], x.shape[3])
    size = size or whole
    if random_resized_crop is not None:
        x = resized_crop(x, draws, random_resized_crop, size)
    elif size != whole:
        free = torch.tensor(whole) - torch.tensor(size) + 1
        corner = (draws.rand(2) * free).long()
        x = _cut_out(x.permute(0, 2, 3, 1).contiguous(), send(corner, x.device), size)
    if flip:
        x = mirror(x, send(draws.rand().lt(0.5), x.device))
    steps: tuple[tuple[int, Literal["reflect", "zero"]], ...] = ((crop, "reflect"), (shift, "zero"))
    for margin, fill in steps:
        if margin:
            offset = draws.randint(-margin, margin + 1, 2)
            x = translate(x, send(offset, x.device), margin=margin, fill=fill)
    if auto_augment is not None:
        x = by_policy(x, draws, auto_augment)
    return jitter(x, draws, color_jitter) if color_jitter else x


def send(values: Tensor, device: torch.device) -> Tensor:
    """Move ``values`` to ``device``; to a GPU from pinned memory, as other copies wait for all its work."""
    if device.type == "cuda" and values.device.type == "cpu":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def centre(x: Tensor, size: tuple[int, int]) -> Tensor:
    """The central part of ``size``, (H, W), as a view; halves are rounded to even, as by torchvision."""
    top, left = (round((have - want) / 2) for have, want in zip(x.shape[2:], size, strict=True))
    return x[:, :, top : top + size[0], left : left + size[1]]


def resized_crop(x: Tensor, draws: Draws, scale: tuple[float, float], size: tuple[int, int]) -> Tensor:
    """A random part of each image, of an area in ``scale`` (Szegedy 2015, arXiv:1409.4842), in ``size``."""
    out = torch.empty((*x.shape[:2], *size), dtype=x.dtype, device=x.device)
    out = out.contiguous(memory_format=torch.channels_last)
    for i, (top, left, height, width) in enumerate(boxes(len(x), x.shape[2:], draws, scale).tolist()):
        part = x[i : i + 1, :, top : top + height, left : left + width]
        if x.device.type == "cpu":
            out[i] = F.interpolate(part, size, mode="bilinear", antialias=True)[0]
        else:
            # Antialiased resizing of integers exists only on the CPU.
            resized = F.interpolate(part.float(), size, mode="bilinear", antialias=True)
            out[i] = resized.round_().clamp_(0, 255)[0]
    return out


def boxes(count: int, size: tuple[int, ...], draws: Draws, scale: tuple[float, float]) -> Tensor:
    """(top, left, height, width) of a random part of each image, (count, 4), as torchvision draws them.

    Area and logarithm of the shape are uniform; after ten that do not fit, the central one of the nearest.
    """
    height, width = size
    shares, shapes, places = draws.rand(3, TRIES).unbind(1)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * shares)
    ratio = RATIO ** (2 * shapes - 1)
    sizes = torch.stack(((area / ratio).sqrt(), (area * ratio).sqrt()), -1).round().long()
    fits = ((sizes >= 1) & (sizes <= torch.tensor(size))).all(-1)
    first = fits.int().argmax(1)
    whole = torch.tensor([min(height, round(width * RATIO)), min(width, round(height * RATIO))])
    found = fits.any(1)[:, None]
    chosen = torch.where(found, sizes[torch.arange(count), first], whole)
    free = torch.tensor(size) - chosen + 1
    corner = torch.where(found, (places[:, :2] * free).floor().long(), (free - 1) // 2)
    return torch.cat((corner, chosen), 1)


def mirror(x: Tensor, chosen: Tensor) -> Tensor:
    """``x`` with the images mirrored left and right where ``chosen``, (N,) of bool, is true."""
    pixels = x.permute(0, 2, 3, 1).contiguous()
    if x.device.type != "cpu":
        # Without counting the chosen images, which would synchronise with the GPU.
        return torch.where(chosen.view(-1, 1, 1, 1), pixels.flip(2), pixels).permute(0, 3, 1, 2)
    # Copying whole images is several times as fast as selecting pixels.
    mirrored = pixels.index_select(0, chosen.nonzero().squeeze(1)).flip(2)
    place = torch.where(chosen, chosen.cumsum(0) + (len(chosen) - 1), torch.arange(len(chosen)))
    return torch.cat((pixels, mirrored)).index_select(0, place).permute(0, 3, 1, 2)


def translate(x: Tensor, offset: Tensor, *, margin: int, fill: Literal["zero", "reflect"]) -> Tensor:
    """y[r, c] = x[r - dy, c - dx] for each image; ``offset``, (N, 2), is (dy, dx) in [-margin, margin]."""
    padded = _pad(x.permute(0, 2, 3, 1), margin, fill).contiguous()
    return _cut_out(padded, margin - offset, (x.shape[2], x.shape[3]))


def _pad(pixels: Tensor, margin: int, fill: str) -> Tensor:
    if fill == "zero":
        return F.pad(pixels, (0, 0, margin, margin, margin, margin))
    # torch's own reflection padding does not support integers.
    height, width = pixels.shape[1:3]
    before = [pixels[:, :, at : at + 1] for at in range(margin, 0, -1)]
    after = [pixels[:, :, at : at + 1] for at in range(width - 2, width - 2 - margin, -1)]
    rows = torch.arange(-margin, height + margin, device=pixels.device).abs()
    rows = height - 1 - (height - 1 - rows).abs()
    return torch.cat((*before, pixels, *after), 2).index_select(1, rows)


def _cut_out(pixels: Tensor, corner: Tensor, size: tuple[int, int]) -> Tensor:
    """(N, C, *size): the window at ``corner``, (N, 2), of each image of ``pixels``, (N, H, W, C)."""
    (n, rows, _, channels), (height, width) = pixels.shape, size
    row = pixels.shape[2] * channels
    # Every window of H rows by W*C values is a view with some offset: selecting one per image copies
    # long runs, ten times as fast as gathering pixels.
    begins = pixels.numel() - (height - 1) * row - width * channels + 1
    windows = pixels.flatten().as_strided((max(begins, 0), height, width * channels), (1, row, 1))
    top, left = corner.unbind(1)
    begin = (torch.arange(n, device=pixels.device) * rows + top) * row + left * channels
    return windows.index_select(0, begin).view(n, height, width, channels).permute(0, 3, 1, 2)


def mix(
    images: Tensor,
    labels: Tensor,
    generator: torch.Generator,
    *,
    num_classes: int,
    mixup: float = 0.0,
    cutmix: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Mixup (Zhang 2018, arXiv:1710.09412) or CutMix (Yun 2019, arXiv:1905.04899) of a batch.

    One share for all is drawn from Beta(alpha, alpha), where ``mixup`` and ``cutmix`` are alpha; with both,
    each mixes half of the batches. Returns the images and the shares of classes, (N, num_classes), float32.
    """
    order = torch.randperm(len(images), generator=generator).to(images.device)
    coin, seed = torch.rand((), generator=generator).item(), torch.randint(1 << 62, (), generator=generator)
    by_cutting = bool(cutmix) and (not mixup or coin < 0.5)
    alpha = cutmix if by_cutting else mixup
    share = float(np.random.Generator(np.random.PCG64(int(seed))).beta(alpha, alpha))
    if by_cutting:
        rows, columns = _rectangle(images.shape[2], images.shape[3], 1 - share, generator)
        mixed = images.clone()
        mixed[:, :, rows, columns] = images[order][:, :, rows, columns]
        pasted = (rows.stop - rows.start) * (columns.stop - columns.start)
        share = 1 - pasted / (images.shape[2] * images.shape[3])
    else:
        mixed = torch.lerp(images[order], images, share)
    classes = F.one_hot(labels, num_classes).float()
    return mixed, torch.lerp(classes[order], classes, share)


def _rectangle(height: int, width: int, area: float, generator: torch.Generator) -> tuple[slice, slice]:
    """Rows and columns of a rectangle of this share of the area and the image's shape; uniform centre."""
    centre = torch.rand(2, generator=generator, dtype=torch.float64).tolist()
    spans = []
    for length, place in zip((height, width), centre, strict=True):
        half = int(length * math.sqrt(area)) // 2
        middle = int(length * place)
        spans.append(slice(max(0, middle - half), min(length, middle + half)))
    return spans[0], spans[1]
