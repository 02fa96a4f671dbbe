"""Max pooling on a GPU: the winner's place in its window, uint8, and gradients gathered without atomics."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.triton.places import BLOCK, at, dense, empty, grid, numbered, unravelled
from cnnpool.pool.window import Window


@triton.jit
def _forward(
    x, y, winners, count, channels, height, width, rows, columns,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr,
    dh: tl.constexpr, dw: tl.constexpr, last: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    index, real = numbered(count, block)
    n, k, r, c = unravelled(index, channels, rows, columns, last)
    best = tl.full((block,), float("-inf"), wide)
    place = tl.full((block,), -1, tl.int32)
    for i in range(kh):
        for j in range(kw):
            h, w = r * sh - ph + i * dh, c * sw - pw + j * dw
            inside = real & (h >= 0) & (h < height) & (w >= 0) & (w < width)
            source = at(n, k, h, w, channels, height, width, last)
            value = tl.load(x + source, inside, other=float("-inf")).to(wide)
            # The first of a window counts even if it is -inf; the last NaN wins.
            won = inside & ((value > best) | (value != value) | (place < 0))
            best, place = tl.where(won, value, best), tl.where(won, i * kw + j, place)
    tl.store(y + index, best.to(y.dtype.element_ty), real)
    tl.store(winners + index, place.to(tl.uint8), real)


@triton.jit
def _backward(
    grad, winners, out, count, channels, height, width, rows, columns,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr,
    dh: tl.constexpr, dw: tl.constexpr, last: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    index, real = numbered(count, block)
    n, k, h, w = unravelled(index, channels, height, width, last)
    total = tl.zeros((block,), wide)
    for i in range(kh):
        for j in range(kw):
            top, left = h + ph - i * dh, w + pw - j * dw
            r, c = top // sh, left // sw
            met = real & (top >= 0) & (left >= 0) & (r < rows) & (c < columns)
            met = met & (top % sh == 0) & (left % sw == 0)
            source = at(n, k, r, c, channels, rows, columns, last)
            won = met & (tl.load(winners + source, met, other=255) == i * kw + j)
            total += tl.load(grad + source, won, other=0.0).to(wide)
    tl.store(out + index, total.to(out.dtype.element_ty), real)


def _wide(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


@torch.library.custom_op("cnnpool::triton_max_pool2d", mutates_args=())
def _max(x: Tensor, window: list[int], rows: int, columns: int) -> tuple[Tensor, Tensor]:
    x, last = dense(x)
    y, winners = empty(x, (rows, columns), x.dtype, last), empty(x, (rows, columns), torch.uint8, last)
    if y.numel():
        sizes = y.numel(), *x.shape[1:], rows, columns
        _forward[grid(y)](x, y, winners, *sizes, *window, last, _wide(x), BLOCK)
    return y, winners


@_max.register_fake
def _(x: Tensor, window: list[int], rows: int, columns: int) -> tuple[Tensor, Tensor]:
    last = dense(x)[1]
    return empty(x, (rows, columns), x.dtype, last), empty(x, (rows, columns), torch.uint8, last)


@torch.library.custom_op("cnnpool::triton_max_pool2d_backward", mutates_args=())
def _spread(grad: Tensor, winners: Tensor, window: list[int], height: int, width: int, last: bool) -> Tensor:
    layout = torch.channels_last if last else torch.contiguous_format
    grad, winners = grad.contiguous(memory_format=layout), winners.contiguous(memory_format=layout)
    out = empty(grad, (height, width), grad.dtype, last)
    if out.numel():
        sizes = grad.shape[1], height, width, *grad.shape[2:]
        _backward[grid(out)](grad, winners, out, out.numel(), *sizes, *window, last, _wide(grad), BLOCK)
    return out


@_spread.register_fake
def _(grad: Tensor, winners: Tensor, window: list[int], height: int, width: int, last: bool) -> Tensor:
    return empty(grad, (height, width), grad.dtype, last)


def _flat(window: Window) -> list[int]:
    return [number for pair in window[:4] for number in pair]


def forward(x: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Maxima and the first winners, both (N, C, H', W')."""
    return _max(x, _flat(window), *window.output_size(x.shape[2], x.shape[3]))


def backward(grad: Tensor, winners: Tensor, window: Window, size: tuple[int, int], last: bool) -> Tensor:
    """Gradient of the (N, C, *size) input; half precision is summed in float32 and rounded once."""
    return _spread(grad, winners, _flat(window), *size, last)
