"""Shifts of whole batches, in parts, so that memory does not depend on the batch, and their predictions."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from cnnpool.as_found import examined
from cnnpool.probe.base import Stages, device_of, maps_of

BATCH = 128
Key = TypeVar("Key")
Mean = TypeVar("Mean", float, Tensor)
FORWARD = 1 << 20
"""Pixels of one forward pass: 128 images of 90 pixels, 20 of 224."""
BACKWARD = 1 << 18
"""Pixels of one pass that saves much of each, such as for backward: 256 images of 32 pixels, 5 of 224."""


def at_once(images: Tensor, *, kept: bool) -> int:
    """How many of ``images`` (N, C, H, W) to process at once; fewer if much is ``kept`` of each."""
    return max(1, (BACKWARD if kept else FORWARD) // (images.shape[-2] * images.shape[-1]))


def parts(images: Tensor, *others: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """``images`` and the tensors that go with them, in parts small enough to save much of each."""
    size = at_once(images, kept=True)
    return zip(*(each.split(size) for each in (images, *others)), strict=True)


def with_next(
    model: nn.Module, stages: Stages, images: Tensor
) -> Iterator[tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]]:
    """For each part of ``images``: the part, the outputs of the stages, and those for the next images."""
    for some, others in parts(images, images.roll(1, 0)):
        still = maps_of(model, stages, some)
        whole = len(some) == len(images)
        rolled = {stage: x.roll(1, 0) for stage, x in still.items()} if whole else None
        yield some, still, rolled or maps_of(model, stages, others)


def mean_over(found: Sequence[tuple[int, Mapping[Key, Mean]]]) -> dict[Key, Mean]:
    """By key, the mean over all images, from each part's number of images and the means over them."""
    total = sum(count for count, _ in found)
    # A single part must keep its bits.
    return {
        key: reduce(add, [means[key] * (count / total) for count, means in found])
        for key in (found[0][1] if found else ())
    }


def relative_to(scale: float, change: float) -> float:
    """``change`` divided by ``scale``; of a scale of 0, 0 where nothing changed, else NaN."""
    return change / scale if scale else math.nan if change else 0.0


class NoLogitsError(ValueError):
    """The model returns something other than a row of logits per image."""


def logits(model: nn.Module, images: Tensor, *, dense: bool = False) -> Tensor:
    """Logits (N, K), or with ``dense`` per pixel (N, K, H, W), on the CPU; else NoLogitsError."""
    with examined(model), torch.no_grad():
        parts = images.split(_size(images))
        pixels = images.shape[2:] if dense else None
        return torch.cat([_row(model(part.to(device_of(model))), pixels) for part in parts])


def _row(output: Any, pixels: torch.Size | None) -> Tensor:
    """``output`` on the CPU, if it is logits (N, K), or (N, K, H, W) for (H, W) ``pixels``."""
    if isinstance(output, Tensor) and (output.ndim == 2 or (output.ndim == 4 and output.shape[2:] == pixels)):
        return output.cpu()
    found = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
    if isinstance(output, Tensor) and output.ndim == 4:
        found += "; in Python cnnpool.probe.AllShifts takes those of every pixel"
    raise NoLogitsError(f"the model must return logits (N, K), one row per image, got {found}")


def predictions(
    model: nn.Module,
    images: Tensor,
    shifts: Tensor,
    view: Callable[[Tensor, Tensor], Tensor] | None = None,
    *,
    dense: bool = False,
) -> Tensor:
    """Top-1 classes (N,) of images (N, C, H, W), each shifted by its row of ``shifts`` (N, 2) or all by (2,):
    circularly, or by ``view`` of (images, shifts).

    With ``dense`` also the classes of pixels, (N, H, W), under circular shifts, shifted back.
    """
    size = _size(images)

    def moved(some: Tensor, by: Tensor) -> Tensor:
        if view:
            return view(some, by)
        # A common shift is a roll, which is faster.
        return shift(some, *(shifts.tolist() if shifts.dim() == 1 else by.unbind(1)))

    def classes(some: Tensor, by: Tensor) -> Tensor:
        top = logits(model, moved(some, by), dense=dense and view is None).argmax(1)
        return shift(top[:, None], *(-by).unbind(1))[:, 0] if top.ndim == 3 else top

    pieces = zip(images.split(size), shifts.expand(len(images), 2).split(size), strict=True)
    return torch.cat([classes(some, by) for some, by in pieces])


def _size(images: Tensor) -> int:
    return min(BATCH, at_once(images, kept=False))


def shift(
    images: Tensor,
    down: Tensor | int,
    right: Tensor | int,
    *,
    circular: bool = True,
    fill: Tensor | None = None,
) -> Tensor:
    """Move images (N, C, H, W) by whole pixels, one number or one per image (N,), negative up or left.

    Unless ``circular``, ``fill`` enters, by channel (C,); None for zeros: the mean grey of normalised images.
    """
    if circular and isinstance(down, int) and isinstance(right, int):
        return images.roll((down, right), (2, 3))
    n, channels, height, width = images.shape
    rows, row_inside = _source(down, n, height, images.device)
    columns, column_inside = _source(right, n, width, images.device)
    sample = torch.arange(n, device=images.device)[:, None, None]
    moved = images.permute(0, 2, 3, 1)[sample, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    if circular:
        return moved
    inside = row_inside[:, None, :, None] & column_inside[:, None, None, :]
    outside = moved.new_zeros(channels) if fill is None else fill.to(moved)
    return torch.where(inside, moved, outside[:, None, None])


def fourier_shift(images: Tensor, down: float, right: float) -> Tensor:
    """Move images (N, C, H, W) circularly by fractions of a pixel, with ideal interpolation.

    A frequency at Nyquist keeps its real part, cos(pi d), because its phase is unknown.
    """
    moved = _transformable(images)
    for amount, axis in ((down, 2), (right, 3)):
        angle = torch.pi * 2 * amount * _frequencies(moved, axis)
        moved = _filtered(moved, torch.polar(torch.ones_like(angle), -angle), axis)
    return moved.to(images.dtype)


def fourier_derivative(images: Tensor, axis: int) -> Tensor:
    """d/dt at 0 of images (N, C, H, W) moved by t pixels along ``axis`` (2: down, 3: right), as above."""
    exact = _transformable(images)
    angle = torch.pi * 2 * _frequencies(exact, axis)
    return _filtered(exact, torch.complex(torch.zeros_like(angle), -angle), axis).to(images.dtype)


def square(radius: int) -> list[tuple[int, int]]:
    """All shifts of up to ``radius`` pixels each way, row by row."""
    span = range(-radius, radius + 1)
    return [(down, right) for down in span for right in span]


def cross(distance: int) -> list[tuple[int, int]]:
    """The shifts by ``distance`` pixels in the four axis directions; a single one for 0."""
    return list(dict.fromkeys([(distance, 0), (-distance, 0), (0, distance), (0, -distance)]))


def _transformable(images: Tensor) -> Tensor:
    """The images, or in float32 those of half precision, which torch does not transform everywhere."""
    return images.float() if images.dtype in (torch.bfloat16, torch.float16) else images


def _filtered(images: Tensor, response: Tensor, axis: int) -> Tensor:
    length = images.shape[axis]
    spectrum = torch.fft.rfft(images, dim=axis) * response
    # irfft drops the imaginary part at Nyquist, where its two halves cancel.
    filtered: Tensor = torch.fft.irfft(spectrum, n=length, dim=axis)
    return filtered


def _frequencies(images: Tensor, axis: int) -> Tensor:
    frequencies: Tensor = torch.fft.rfftfreq(images.shape[axis], dtype=images.dtype, device=images.device)
    return frequencies[:, None] if axis == 2 else frequencies


def _source(amount: Tensor | int, n: int, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    amount = torch.as_tensor(amount, device=device).expand(n)
    source = torch.arange(length, device=device) - amount[:, None]
    return source % length, (source >= 0) & (source < length)
