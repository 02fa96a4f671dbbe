"""Shifts of whole batches, by whole pixels and by fractions of one, and sets of them."""

import torch
from torch import Tensor


def shift(
    images: Tensor,
    down: Tensor | int,
    right: Tensor | int,
    *,
    circular: bool = True,
    fill: Tensor | None = None,
) -> Tensor:
    """Each image moved by its own whole number of pixels.

    Args:
        images: (N, C, H, W).
        down, right: pixels, one number or one per image (N,); negative moves up or left.
        circular: what leaves on one side enters on the other; else ``fill`` enters.
        fill: by channel (C,); None for zeros. Of normalised images, zero is the mean grey, not black.
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
    """Images (N, C, H, W) moved circularly by fractions of a pixel, with ideal interpolation.

    The phase of every frequency f turns by 2 pi f d. A frequency at Nyquist keeps its real part, cos(pi d),
    as its phase is unknown. Shifts by whole pixels are rolls, within rounding.
    """
    for amount, axis in ((down, 2), (right, 3)):
        angle = torch.pi * 2 * amount * _frequencies(images, axis)
        images = _filtered(images, torch.polar(torch.ones_like(angle), -angle), axis)
    return images


def fourier_derivative(images: Tensor, axis: int) -> Tensor:
    """d/dt at 0 of images (N, C, H, W) moved by t pixels along ``axis`` (2: down, 3: right), as above."""
    angle = torch.pi * 2 * _frequencies(images, axis)
    return _filtered(images, torch.complex(torch.zeros_like(angle), -angle), axis)


def square(radius: int) -> list[tuple[int, int]]:
    """All shifts of up to ``radius`` pixels each way, row by row."""
    span = range(-radius, radius + 1)
    return [(down, right) for down in span for right in span]


def cross(distance: int) -> list[tuple[int, int]]:
    """The shifts by ``distance`` pixels in the four directions of the axes; a single one for 0."""
    return list(dict.fromkeys([(distance, 0), (-distance, 0), (0, distance), (0, -distance)]))


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
