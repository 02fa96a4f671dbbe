"""Activations of the backbones: pointwise ones, and alias-free ones."""

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Activation = Literal["relu", "gelu", "silu", "alias_free", "alias_free_relu", "alias_free_gelu"]
"""alias_free: a learnt parabola at twice the resolution (Michaeli 2023); the others as named."""


def activate(name: Activation, channels: int) -> nn.Module:
    return ACTIVATIONS[name](channels)


class Parabola(nn.Module):
    """a + b x + c x^2 with a, b, c learnt for each channel (Michaeli 2023, arXiv:2303.08085).

    Initialised to the parabola nearest to ReLU in the mean square over standard normal x, the output of
    batch normalisation: a = c = 1/sqrt(8 pi), b = 1/2.
    """

    def __init__(self, channels: int):
        super().__init__()
        start = 1 / math.sqrt(8 * math.pi)
        self.constant = nn.Parameter(torch.full((channels,), start))
        self.linear = nn.Parameter(torch.full((channels,), 0.5))
        self.square = nn.Parameter(torch.full((channels,), start))

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = (p.to(x.dtype).view(-1, 1, 1) for p in (self.constant, self.linear, self.square))
        return a + x * (b + c * x)


class AliasFree(nn.Module):
    """An activation at twice the resolution, between ideal filters (Karras 2021; Michaeli 2023).

    The map is treated as periodic. It is interpolated to 2H x 2W, which adds no frequency; ``inner`` acts on
    each value; frequencies from the Nyquist frequency of the H x W map on are removed, and every second pixel
    is kept. A product of two frequencies below 1/2 cycle per pixel is below 1: a parabola causes no aliasing,
    and the layer commutes with shifts by any fraction of a pixel. Any other ``inner`` aliases less than
    without. The Nyquist frequency of an even size, whose phase no sampled map determines, is also removed.
    """

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        # Autocast would round the filters to half precision.
        with torch.autocast(x.device.type, enabled=False):
            fine = x if x.dtype == torch.float64 else x.float()
            rows, columns = (interpolation(length, fine) for length in x.shape[-2:])
            active = self.inner(separable(fine, rows, columns))
            return separable(active, rows.T / 2, columns.T / 2).to(x.dtype)


def interpolation(length: int, like: Tensor) -> Tensor:
    """Matrix (2 length, length) that doubles a periodic signal's samples; half its transpose goes back."""
    frequency = torch.arange(-(-length // 2), device=like.device)
    places = torch.arange(2 * length, device=like.device)
    # In half samples; whole periods are subtracted as integers, which is exact.
    apart = places[:, None] - 2 * torch.arange(length, device=like.device)
    turns = (apart[..., None] * frequency) % (2 * length)
    waves = torch.cos(turns.to(like.dtype) * (math.pi / length))
    return (2 * waves.sum(-1) - 1) / length


def separable(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Apply ``rows`` x ``columns``^T to each channel, in the memory format of ``x``."""
    last = x.shape[1] > 1 and x.is_contiguous(memory_format=torch.channels_last)
    y = torch.einsum("mh,nchw->ncmw", rows, F.linear(x, columns))
    return y.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


ACTIVATIONS: dict[Activation, Callable[[int], nn.Module]] = {
    "relu": lambda channels: nn.ReLU(),
    "gelu": lambda channels: nn.GELU(),
    "silu": lambda channels: nn.SiLU(),
    "alias_free": lambda channels: AliasFree(Parabola(channels)),
    "alias_free_relu": lambda channels: AliasFree(nn.ReLU()),
    "alias_free_gelu": lambda channels: AliasFree(nn.GELU()),
}
