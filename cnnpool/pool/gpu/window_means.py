"""Power means and soft means on a GPU. Only the input is saved: windows are summed again for gradients.

With channels last, disjoint windows scatter their gradients; otherwise every input gathers its own.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.autograd.replayed import EXPECTED, Mean
from cnnpool.pool.gpu import multinomial
from cnnpool.pool.gpu.places import OverLines, at, cell_of, channel_of, dense, empty, frame
from cnnpool.pool.gpu.power_terms import read, sent_to, window
from cnnpool.pool.window import memory_format, wide_of


@triton.jit
def _sum(
    x, y, scales, factors, averages, slopes, numbers, floors, step,
    channels, height, width, rows, columns, count, extent,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, kind: tl.constexpr, mean: tl.constexpr, learnt: tl.constexpr,
    kept: tl.constexpr, last: tl.constexpr, wide: tl.constexpr,
    down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    plane, r, c, along, real = frame(count, extent, rows, columns, last, down, across, big)
    number = tl.load(numbers + channel_of(plane, along, channels, last) * step, real, other=1.0)
    floor = tl.load(floors)
    value, scale, factor, slope = window(
        x, plane, r, c, along, real, number, floor, height, width, channels,
        kh, kw, sh, sw, ph, pw, kind, mean, learnt, last, wide, down, across,
    )  # fmt: skip
    out = at(plane, r, c, along, rows, columns, channels, last)
    if kept:
        tl.store(scales + out, scale, real)
        tl.store(factors + out, factor, real)
        tl.store(averages + out, value, real)
        if learnt:
            tl.store(slopes + out, slope, real)
    else:
        tl.store(y + out, value.to(y.dtype.element_ty), real)


@triton.jit
def _deal(
    x, grad, out, slopes, numbers, floors, step,
    channels, height, width, rows, columns, count, extent,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, kind: tl.constexpr, mean: tl.constexpr, learnt: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    plane, r, c, along, real = frame(count, extent, rows, columns, last, down, across, big)
    number = tl.load(numbers + channel_of(plane, along, channels, last) * step, real, other=1.0)
    floor = tl.load(floors)
    value, scale, factor, slope = window(
        x, plane, r, c, along, real, number, floor, height, width, channels,
        kh, kw, sh, sw, ph, pw, kind, mean, learnt, last, wide, down, across,
    )  # fmt: skip
    source = at(plane, r, c, along, rows, columns, channels, last)
    if learnt:
        tl.store(slopes + source, slope, real)
    factor *= tl.load(grad + source, real, other=0.0).to(wide)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            target, inside = cell_of(
                plane, r, c, along, real, i, j, height, width, channels, sh, sw, ph, pw, last
            )
            raw = tl.load(x + target, inside, other=0.0).to(wide)
            cell = read(x + target, inside, floor, kind, wide)
            sent = sent_to(cell, raw, factor, scale, value, number, floor, kind)
            tl.store(out + target, sent.to(out.dtype.element_ty), inside)


@triton.jit
def _collect(
    x, grad, out, scales, factors, averages, numbers, floors, step,
    channels, height, width, rows, columns, count, extent,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, kind: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    plane, h, w, along, real = frame(count, extent, height, width, last, down, across, big)
    number = tl.load(numbers + channel_of(plane, along, channels, last) * step, real, other=1.0)
    floor = tl.load(floors)
    target = at(plane, h, w, along, height, width, channels, last)
    raw = tl.load(x + target, real, other=0.0).to(wide)
    cell = read(x + target, real, floor, kind, wide)
    total = tl.zeros((down, across), wide)
    for a in tl.static_range((kh + sh - 1) // sh):
        r = (h + ph) // sh - a
        over = (r >= 0) & (r < rows) & (h + ph - r * sh < kh)
        for b in tl.static_range((kw + sw - 1) // sw):
            c = (w + pw) // sw - b
            met = real & over & (c >= 0) & (c < columns) & (w + pw - c * sw < kw)
            source = at(plane, r, c, along, rows, columns, channels, last)
            factor = tl.load(grad + source, met, other=0.0).to(wide)
            factor *= tl.load(factors + source, met, other=0.0)
            scale = tl.load(scales + source, met, other=1.0)
            average = tl.load(averages + source, met, other=0.0)
            total += sent_to(cell, raw, factor, scale, average, number, floor, kind)
    tl.store(out + target, total.to(out.dtype.element_ty), real)


_sum, _deal, _collect = OverLines(_sum), OverLines(_deal), OverLines(_collect)


def _numbers(number: float | Tensor, how: Mean, x: Tensor) -> tuple[tuple[Tensor, Tensor], int]:
    # Tensors of the channels' numbers and of the floor (kernels would take Python's numbers in float32), and
    # the stride between the numbers of two channels.
    floor = _constant(how.floor, x)
    if not isinstance(number, Tensor):
        return (_constant(float(number), x), floor), 0
    return (number.detach().contiguous(), floor), int(number.numel() > 1)


def _constant(number: float, x: Tensor) -> Tensor:
    # A CUDA graph under capture needs its own tensor: it may outlive the cached one.
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return torch.full((), number, dtype=wide_of(x), device=x.device)
    return _remembered(number, wide_of(x), x.device)


@lru_cache(maxsize=64)
def _remembered(number: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full((), number, dtype=dtype, device=device)


def _constants(how: Mean) -> tuple[int, ...]:
    return *how.window.kernel, *how.window.stride, *how.window.padding, how.kind


def forward(x: Tensor, number: Tensor | float, how: Mean) -> Tensor:
    """Means (N, C, H', W') of ``x``, by one ``number`` or one for every channel, (C, 1, 1)."""
    if how.kind == EXPECTED:
        return multinomial.expected(x, how.window)
    x, last = dense(x)
    size = how.window.output_size(x.shape[2], x.shape[3])
    y = empty(x, size, x.dtype, last)
    if y.numel():
        numbers, step = _numbers(number, how, x)
        constants = *_constants(how), how.mean, False, False
        _sum(y.shape, last, (x, y, y, y, y, y, *numbers), (step, *x.shape[1:], *size), constants)
    return y


def backward(
    grad: Tensor, x: Tensor, number: Tensor | float, how: Mean, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradient of the input, and of the number if it is ``learnt``."""
    x, last = dense(x)
    grad, size = grad.contiguous(memory_format=memory_format(last)), (grad.shape[2], grad.shape[3])
    slopes = empty(x, size, wide_of(x), last) if learnt else grad
    out = torch.empty_like(x)
    if out.numel():
        numbers, step = _numbers(number, how, x)
        sizes, constants, summed = (step, *x.shape[1:], *size), _constants(how), (how.mean, learnt)
        if last and not how.window.overlaps:
            if how.window.leaves_out(*x.shape[2:]):
                out.zero_()
            _deal(grad.shape, last, (x, grad, out, slopes, *numbers), sizes, (*constants, *summed))
        else:
            kept = [empty(x, size, wide_of(x), last) for _ in range(3)]
            _sum(grad.shape, last, (x, grad, *kept, slopes, *numbers), sizes, (*constants, *summed, True))
            _collect(out.shape, last, (x, grad, out, *kept, *numbers), sizes, constants)
    if not learnt or not isinstance(number, Tensor):
        return out, None
    parts = (slopes * grad).sum((0, 2, 3) if number.numel() > 1 else None)
    return out, parts.view(number.shape)
