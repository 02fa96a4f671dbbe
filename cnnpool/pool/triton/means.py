"""Power means and soft means on a GPU: windows first, then every input gathers from the windows over it."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.triton.places import BLOCK, at, dense, empty, grid, numbered, unravelled
from cnnpool.pool.window import Window, memory_format

LOG2_E = tl.constexpr(1.4426950408889634)


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
def _forward(
    x, y, tops, factors, means, count, channels, height, width, rows, columns, number, floor,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr,
    kind: tl.constexpr, mean: tl.constexpr, last: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    index, real = numbered(count, block)
    n, k, r, c = unravelled(index, channels, rows, columns, last)
    top = tl.full((block,), float("-inf"), wide)
    for i in range(kh):
        for j in range(kw):
            h, w = r * sh - ph + i, c * sw - pw + j
            inside = real & (h >= 0) & (h < height) & (w >= 0) & (w < width)
            value = _read(x + at(n, k, h, w, channels, height, width, last), inside, floor, kind, wide)
            top = tl.where((value > top) | (value != value), value, top)
    infinite = (top == float("inf")) | (top == float("-inf"))
    scale = tl.where(infinite | ((top == 0) & (kind != 2)), 1.0, top)
    total, weighted, cells = tl.zeros((block,), wide), tl.zeros((block,), wide), tl.zeros((block,), wide)
    for i in range(kh):
        for j in range(kw):
            h, w = r * sh - ph + i, c * sw - pw + j
            inside = real & (h >= 0) & (h < height) & (w >= 0) & (w < width)
            value = _read(x + at(n, k, h, w, channels, height, width, last), inside, floor, kind, wide)
            weight = _weight(value, scale, number, kind)
            total += weight * (1.0 if kind == 2 else value / scale)
            weighted += tl.where(weight == 0, 0.0, weight * value)
            cells += tl.where(inside, 1.0, 0.0)
    if kind == 2:
        value = tl.where(infinite, top, weighted / total)
        factor = tl.where(infinite, 0.0, 1 / total)
    else:
        share = 1 / cells if mean else 1.0
        power = tl.where(total == 0, 1.0, total * share)
        value = tl.where(total == 0, 0.0, tl.exp2(tl.log2(power) / number) * scale)
        value = tl.where(infinite, top, value)
        factor = tl.where(total == 0, 0.0, share * tl.exp2((1 / number - 1) * tl.log2(power)))
    tl.store(y + index, value.to(y.dtype.element_ty), real)
    tl.store(tops + index, scale, real)
    tl.store(factors + index, factor, real)
    tl.store(means + index, tl.where(infinite, 0.0, value), real)


@triton.jit
def _backward(
    x, grad, out, tops, factors, means, count, channels, height, width, rows, columns, number, floor,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr,
    kind: tl.constexpr, last: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    index, real = numbered(count, block)
    n, k, h, w = unravelled(index, channels, height, width, last)
    raw = tl.load(x + index, real, other=0.0).to(wide)
    value = _read(x + index, real, floor, kind, wide)
    total = tl.zeros((block,), wide)
    for i in range(kh):
        for j in range(kw):
            top, left = h + ph - i, w + pw - j
            r, c = top // sh, left // sw
            met = real & (top >= 0) & (left >= 0) & (r < rows) & (c < columns)
            met = met & (top % sh == 0) & (left % sw == 0)
            source = at(n, k, r, c, channels, rows, columns, last)
            factor = tl.load(grad + source, met, other=0.0).to(wide)
            factor *= tl.load(factors + source, met, other=0.0)
            sent = factor * _weight(value, tl.load(tops + source, met, other=1.0), number, kind)
            if kind == 2:
                away = tl.where(sent == 0, 0.0, value - tl.load(means + source, met, other=0.0))
                sent *= 1 + number * away
            total += tl.where(met & (factor != 0), sent, 0.0)
    if kind == 0:
        total = tl.where(raw < 0, -total, tl.where(raw == 0, 0.0, total))
    if kind == 1:
        total = tl.where(raw < floor, 0.0, total)
    tl.store(out + index, total.to(out.dtype.element_ty), real)


def _windows(x: Tensor, rule: list[int], kind: int, mean: bool, number: float, floor: float) -> tuple:
    # Output, and what gradients need of every window: largest, factor, mean.
    x, last = dense(x)
    kh, kw, sh, sw, ph, pw, rows, columns = rule
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    held = [empty(x, (rows, columns), dtype, last) for dtype in (x.dtype, wide, wide, wide)]
    total = tl.float64 if wide == torch.float64 else tl.float32
    if held[0].numel():
        sizes = held[0].numel(), *x.shape[1:], rows, columns, number, floor, kh, kw, sh, sw, ph, pw
        _forward[grid(held[0])](x, *held, *sizes, kind, mean, last, total, BLOCK)
    return x, last, total, held


@torch.library.custom_op("cnnpool::triton_mean", mutates_args=())
def _mean(x: Tensor, rule: list[int], kind: int, mean: bool, number: float, floor: float) -> Tensor:
    return _windows(x, rule, kind, mean, number, floor)[3][0]


@_mean.register_fake
def _(x: Tensor, rule: list[int], kind: int, mean: bool, number: float, floor: float) -> Tensor:
    return empty(x, (rule[6], rule[7]), x.dtype, dense(x)[1])


@torch.library.custom_op("cnnpool::triton_mean_backward", mutates_args=())
def _spread(
    grad: Tensor, x: Tensor, rule: list[int], kind: int, mean: bool, number: float, floor: float
) -> Tensor:
    x, last, total, (_, *held) = _windows(x, rule, kind, mean, number, floor)
    out, grad = torch.empty_like(x), grad.contiguous(memory_format=memory_format(last))
    if out.numel():
        sizes = out.numel(), *x.shape[1:], *rule[6:], number, floor, *rule[:6]
        _backward[grid(out)](x, grad, out, *held, *sizes, kind, last, total, BLOCK)
    return out


@_spread.register_fake
def _(grad: Tensor, x: Tensor, rule: list[int], kind: int, mean: bool, number: float, floor: float) -> Tensor:
    return empty(x, (x.shape[2], x.shape[3]), x.dtype, dense(x)[1])


def _rule(x: Tensor, window: Window) -> list[int]:
    return [*window.kernel, *window.stride, *window.padding, *window.output_size(x.shape[2], x.shape[3])]


def power(x: Tensor, p: float, window: Window, floor: float | None, mean: bool) -> Tensor:
    """(sum or mean u^p)^(1/p) of every window, u = |x| or max(x, ``floor``)."""
    return _mean(x, _rule(x, window), int(floor is not None), mean, float(p), floor or 0.0)


def power_backward(
    grad: Tensor, x: Tensor, p: float, window: Window, floor: float | None, mean: bool
) -> Tensor:
    """Its gradient; nothing but ``x`` need be kept."""
    return _spread(grad, x, _rule(x, window), int(floor is not None), mean, float(p), floor or 0.0)


def soft(x: Tensor, beta: float, window: Window) -> Tensor:
    """Means of every window weighted by softmax(beta x)."""
    return _mean(x, _rule(x, window), 2, True, float(beta), 0.0)


def soft_backward(grad: Tensor, x: Tensor, beta: float, window: Window) -> Tensor:
    """Its gradient; nothing but ``x`` need be kept."""
    return _spread(grad, x, _rule(x, window), 2, True, float(beta), 0.0)
