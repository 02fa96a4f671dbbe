"""Windows that slide over a feature map: their sizes, their checks, and the map seen from each cell."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.base import Size, pair, window_size


class Window(NamedTuple):
    """Kernel, stride, padding and dilation as (vertical, horizontal), in the order torch takes them."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    ceil_mode: bool

    @property
    def cells(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def overlaps(self) -> bool:
        """Whether an input can belong to more than one window."""
        return any(d * (k - 1) >= s for k, s, d in zip(self.kernel, self.stride, self.dilation, strict=True))

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Windows down and across, torch's rule; may be below one."""
        down, across = (
            window_size(length, k, s, p, d, self.ceil_mode)
            for length, k, s, p, d in zip((height, width), *self[:4], strict=True)
        )
        return down, across

    def pads(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Left, right, top and bottom padding that brings every cell of every window inside the map."""
        sides = []
        for length, count, k, s, p, d in zip(
            (height, width), self.output_size(height, width), *self[:4], strict=True
        ):
            sides.append((p, max(0, (count - 1) * s + d * (k - 1) + 1 - length - p)))
        (top, bottom), (left, right) = sides
        return left, right, top, bottom


def window_of(
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Window:
    """The checked window; ``stride=None`` means the kernel's size.

    Raises:
        ValueError: if a number is out of range, or the padding exceeds half the kernel.
    """
    kernel = _pair(kernel_size, "kernel_size", 1)
    pads = _pair(padding, "padding", 0)
    if any(2 * p > k for p, k in zip(pads, kernel, strict=True)):
        raise ValueError(f"padding must be at most half of kernel_size={kernel_size}, got {padding}")
    steps = kernel if stride in (None, (), []) else _pair(stride, "stride", 1)
    return Window(kernel, steps, pads, _pair(dilation, "dilation", 1), bool(ceil_mode))


def _pair(value: Size, name: str, least: int) -> tuple[int, int]:
    # A sequence of one stands for both axes, as in torch.
    one = not isinstance(value, int) and len(value) == 1
    return pair(value[0] if one else value, name, least=least)


def check_map(x: Tensor, window: Window, operator: str) -> None:
    """Refuse a map that ``window`` makes nothing of.

    Raises:
        ValueError: unless ``x`` is (C, H, W) or (N, C, H, W), with C, H, W and the output not empty.
    """
    if x.dim() not in (3, 4):
        raise ValueError(f"{operator} takes (N, C, H, W) or (C, H, W), got {tuple(x.shape)}")
    height, width = x.shape[-2:]
    if min(x.shape[-3:]) < 1 or min(window.output_size(height, width)) < 1:
        raise ValueError(
            f"{operator} leaves nothing of a {height}x{width} map of {x.shape[-3]} channels: "
            f"kernel_size={window.kernel}, stride={window.stride}, padding={window.padding}, "
            f"dilation={window.dilation}"
        )


def is_channels_last(x: Tensor) -> bool:
    # From the strides: a tensor under vmap cannot be asked for its memory format.
    return x.shape[1] > 1 and x.stride(1) < min(x.stride(2), x.stride(3))


def memory_format(channels_last: bool) -> torch.memory_format:
    return torch.channels_last if channels_last else torch.contiguous_format


def cells(x: Tensor, window: Window, fill: float | Literal[False]) -> Iterator[Tensor]:
    """One view (N, C, H', W') of ``x`` per cell of the window, row by row; ``fill`` outside the map."""
    height, width = x.shape[-2:]
    down, across = window.output_size(height, width)
    yield from cell_views(F.pad(x, window.pads(height, width), value=fill), window, down, across)


def cell_views(padded: Tensor, window: Window, down: int, across: int) -> Iterator[Tensor]:
    """The views of a map that is padded already, which may be written through."""
    (sh, sw), (dh, dw) = window.stride, window.dilation
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            rows = slice(row * dh, row * dh + (down - 1) * sh + 1, sh)
            columns = slice(column * dw, column * dw + (across - 1) * sw + 1, sw)
            yield padded[..., rows, columns]
