"""Power means and soft means on a GPU. Nothing but the input is kept: windows are summed again for gradients.

With channels last, windows that share nothing send their gradients themselves; else every input gathers them.
"""

from functools import lru_cache
from typing import Literal, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.triton.places import OverLines, at, channel_of, dense, empty, frame, wide_of
from cnnpool.pool.window import Window, memory_format

LOG_2, LOG2_E = tl.constexpr(0.6931471805599453), tl.constexpr(1.4426950408889634)
POWER, FLOORED, SOFT = range(3)


class Mean(NamedTuple):
    """Which mean of a window: of |x|, of max(x, floor), or weighted by softmax."""

    kind: Literal[0, 1, 2]
    window: Window
    floor: float = 0.0
    mean: bool = True
    """Whether the sum of powers is divided by the number of cells."""


@triton.jit
def _read(x, inside, floor, kind: tl.constexpr, wide: tl.constexpr):
    # |x|, max(x, floor), or x for a soft mean; nothing outside.
    value = tl.load(x, inside, other=float("-inf") if kind == 2 else 0.0).to(wide)
    if kind == 0:
        return tl.abs(value)
    if kind == 1:
        return tl.where(inside, tl.where(value < floor, floor, value), 0.0)
    return value


@triton.jit
def _weight(value, top, number, kind: tl.constexpr):
    # Of its power mean (u / top)^(p - 1), 0 at 0; of a soft mean e^(beta (x - top)).
    if kind == 2:
        return tl.where(value == float("-inf"), 0.0, tl.exp2(number * (value - top) * LOG2_E))
    ratio = value / top
    return tl.where(ratio == 0, 0.0, tl.exp2((number - 1) * tl.log2(tl.where(ratio == 0, 1.0, ratio))))


@triton.jit
def _window(
    x, plane, r, c, along, real, number, floor, height, width, channels,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, kind: tl.constexpr, mean: tl.constexpr, learnt: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr,
):  # fmt: skip
    # Mean, what is divided or subtracted, what a weight is multiplied by, and the slope along the number.
    top = tl.full((down, across), float("-inf"), wide)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            h, w = r * sh - ph + i, c * sw - pw + j
            inside = real & (h >= 0) & (h < height) & (w >= 0) & (w < width)
            value = _read(
                x + at(plane, h, w, along, height, width, channels, last), inside, floor, kind, wide
            )
            top = tl.where((value > top) | (value != value), value, top)
    infinite = (top == float("inf")) | (top == float("-inf"))
    scale = tl.where(infinite | ((top == 0) & (kind != 2)), 1.0, top)
    total, weighted = tl.zeros((down, across), wide), tl.zeros((down, across), wide)
    cells, moment = tl.zeros((down, across), wide), tl.zeros((down, across), wide)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            h, w = r * sh - ph + i, c * sw - pw + j
            inside = real & (h >= 0) & (h < height) & (w >= 0) & (w < width)
            value = _read(
                x + at(plane, h, w, along, height, width, channels, last), inside, floor, kind, wide
            )
            weight = _weight(value, scale, number, kind)
            if kind == 2:
                total += weight
                weighted += tl.where(weight == 0, 0.0, weight * value)
            else:
                power = weight * (value / scale)
                total += power
                cells += tl.where(inside, 1.0, 0.0)
                if learnt:
                    moment += tl.where(power == 0, 0.0, power * tl.log2(value / scale))
    slope = tl.zeros((down, across), wide)
    if kind == 2:
        value = tl.where(infinite, top, weighted / total)
        factor = tl.where(infinite, 0.0, 1 / total)
        if learnt:
            for i in tl.static_range(kh):
                for j in tl.static_range(kw):
                    h, w = r * sh - ph + i, c * sw - pw + j
                    inside = real & (h >= 0) & (h < height) & (w >= 0) & (w < width)
                    source = at(plane, h, w, along, height, width, channels, last)
                    cell = _read(x + source, inside, floor, kind, wide)
                    weight = _weight(cell, scale, number, kind) * factor
                    slope += tl.where(weight == 0, 0.0, weight * (cell - value) * (cell - value))
    else:
        share = 1 / cells if mean else 1.0
        power = tl.where(total == 0, 1.0, total * share)
        level = tl.log2(power)
        value = tl.where(total == 0, 0.0, tl.exp2(level / number) * scale)
        value = tl.where(infinite, top, value)
        factor = tl.where(infinite | (total == 0), 0.0, share * tl.exp2((1 / number - 1) * level))
        if learnt:
            slope = (share * moment / power - level / number) * LOG_2 / number * value
            slope = tl.where(total == 0, 0.0, slope)
    return value, scale, factor, tl.where(real & ~infinite, slope, 0.0)


@triton.jit
def _sent(value, raw, factor, scale, average, number, floor, kind: tl.constexpr):
    # What an input gets from a window.
    sent = factor * _weight(value, scale, number, kind)
    if kind == 2:
        sent *= 1 + number * tl.where(sent == 0, 0.0, value - average)
    if kind == 0:
        sent = tl.where(raw < 0, -sent, tl.where(raw == 0, 0.0, sent))
    if kind == 1:
        sent = tl.where(raw < floor, 0.0, sent)
    return tl.where(factor == 0, 0.0, sent)


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
    value, scale, factor, slope = _window(
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
    value, scale, factor, slope = _window(
        x, plane, r, c, along, real, number, floor, height, width, channels,
        kh, kw, sh, sw, ph, pw, kind, mean, learnt, last, wide, down, across,
    )  # fmt: skip
    source = at(plane, r, c, along, rows, columns, channels, last)
    if learnt:
        tl.store(slopes + source, slope, real)
    factor *= tl.load(grad + source, real, other=0.0).to(wide)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            h, w = r * sh - ph + i, c * sw - pw + j
            inside = real & (h >= 0) & (h < height) & (w >= 0) & (w < width)
            target = at(plane, h, w, along, height, width, channels, last)
            raw = tl.load(x + target, inside, other=0.0).to(wide)
            cell = _read(x + target, inside, floor, kind, wide)
            sent = _sent(cell, raw, factor, scale, value, number, floor, kind)
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
    cell = _read(x + target, real, floor, kind, wide)
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
            total += _sent(cell, raw, factor, scale, average, number, floor, kind)
    tl.store(out + target, total.to(out.dtype.element_ty), real)


_sum, _deal, _collect = OverLines(_sum), OverLines(_deal), OverLines(_collect)


def _numbers(number: float | Tensor, how: Mean, x: Tensor) -> tuple[tuple[Tensor, Tensor], int]:
    # Where the number of every channel is, and the floor: a kernel would take numbers of Python in float32.
    # Then how far apart the numbers of two channels are.
    floor = _constant(how.floor, x)
    if not isinstance(number, Tensor):
        return (_constant(float(number), x), floor), 0
    return (number.detach().contiguous(), floor), int(number.numel() > 1)


def _constant(number: float, x: Tensor) -> Tensor:
    # A CUDA graph that is being recorded fills its own: it may outlive what is remembered here.
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return torch.full((), number, dtype=wide_of(x), device=x.device)
    return _remembered(number, wide_of(x), x.device)


@lru_cache(maxsize=64)
def _remembered(number: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full((), number, dtype=dtype, device=device)


def _constants(how: Mean) -> tuple[int, ...]:
    return *how.window.kernel, *how.window.stride, *how.window.padding, how.kind


def forward(x: Tensor, number: float | Tensor, how: Mean) -> Tensor:
    """Means (N, C, H', W') of ``x``, by one ``number`` or one for every channel, (C, 1, 1)."""
    x, last = dense(x)
    size = how.window.output_size(x.shape[2], x.shape[3])
    y = empty(x, size, x.dtype, last)
    if y.numel():
        numbers, step = _numbers(number, how, x)
        constants = *_constants(how), how.mean, False, False
        _sum(y.shape, last, (x, y, y, y, y, y, *numbers), (step, *x.shape[1:], *size), constants)
    return y


def backward(
    grad: Tensor, x: Tensor, number: float | Tensor, how: Mean, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradient of the input, and of the number if it is ``learnt``."""
    x, last = dense(x)
    grad, size = grad.contiguous(memory_format=memory_format(last)), tuple(grad.shape[2:])
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
    if not learnt:
        return out, None
    parts = (slopes * grad).sum((0, 2, 3) if number.numel() > 1 else None)
    return out, parts.view(number.shape)
