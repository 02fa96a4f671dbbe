"""Max pooling on a GPU: winners are places in their windows, uint8; gradients need no atomics."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.gpu.places import OverLines, at, cell_of, dense, empty, frame
from cnnpool.pool.window import Window, memory_format

# A winner outside its window gets no gradient.
SKIPS_NOWHERE = True


@triton.jit
def _forward(
    x, y, winners, channels, height, width, rows, columns, count, extent,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, dh: tl.constexpr, dw: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    plane, r, c, along, real = frame(count, extent, rows, columns, last, down, across, big)
    best = tl.full((down, across), float("-inf"), wide)
    place = tl.full((down, across), -1, tl.int32)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            source, inside = cell_of(
                plane, r, c, along, real, i * dh, j * dw, height, width, channels, sh, sw, ph, pw, last
            )
            value = tl.load(x + source, inside, other=float("-inf")).to(wide)
            # The first of a window counts even if it is -inf; the last NaN wins.
            won = inside & ((value > best) | (value != value) | (place < 0))
            best, place = tl.where(won, value, best), tl.where(won, i * kw + j, place)
    out = at(plane, r, c, along, rows, columns, channels, last)
    tl.store(y + out, best.to(y.dtype.element_ty), real)
    tl.store(winners + out, place.to(tl.uint8), real)


@triton.jit
def _deal(
    grad, winners, out, channels, height, width, rows, columns, count, extent,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, dh: tl.constexpr, dw: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    # Disjoint windows: each writes its cells.
    plane, r, c, along, real = frame(count, extent, rows, columns, last, down, across, big)
    source = at(plane, r, c, along, rows, columns, channels, last)
    value = tl.load(grad + source, real, other=0.0)
    place = tl.load(winners + source, real, other=255).to(tl.int32)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            target, inside = cell_of(
                plane, r, c, along, real, i * dh, j * dw, height, width, channels, sh, sw, ph, pw, last
            )
            tl.store(out + target, tl.where(place == i * kw + j, value, 0.0), inside)


@triton.jit
def _over(place, turn, kernel: tl.constexpr, stride: tl.constexpr, dilation: tl.constexpr):
    # A window over a place of the padded map, the place's cell in it, and whether it has one.
    if dilation > 1:
        window, cell = (place - turn * dilation) // stride, turn
        has = (place >= turn * dilation) & (window * stride + turn * dilation == place)
    else:
        window = place // stride - turn
        cell = place - window * stride
        has = cell < kernel
    return window, cell, has


@triton.jit
def _collect(
    grad, winners, out, channels, height, width, rows, columns, count, extent,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, dh: tl.constexpr, dw: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    # Every cell checks the windows that it may have won.
    plane, h, w, along, real = frame(count, extent, height, width, last, down, across, big)
    total = tl.zeros((down, across), wide)
    for a in tl.static_range(kh if dh > 1 else (kh + sh - 1) // sh):
        r, i, over = _over(h + ph, a, kh, sh, dh)
        over = over & (r >= 0) & (r < rows)
        for b in tl.static_range(kw if dw > 1 else (kw + sw - 1) // sw):
            c, j, met = _over(w + pw, b, kw, sw, dw)
            met = real & over & met & (c >= 0) & (c < columns)
            source = at(plane, r, c, along, rows, columns, channels, last)
            won = met & (tl.load(winners + source, met, other=255).to(tl.int32) == i * kw + j)
            total += tl.load(grad + source, won, other=0.0).to(wide)
    target = at(plane, h, w, along, height, width, channels, last)
    tl.store(out + target, total.to(out.dtype.element_ty), real)


_forward, _deal, _collect = OverLines(_forward), OverLines(_deal), OverLines(_collect)
Whole = tuple[int, ...]


def pool(x: Tensor, window: Whole, size: tuple[int, int], last: bool) -> tuple[Tensor, Tensor]:
    """Maxima and first winners of a dense ``x``; ``window`` is kernel, stride, padding, dilation."""
    y, winners = empty(x, size, x.dtype, last), empty(x, size, torch.uint8, last)
    if y.numel():
        _forward(y.shape, last, (x, y, winners), (*x.shape[1:], *size), window)
    return y, winners


def spread(grad: Tensor, winners: Tensor, window: Whole, out: Tensor, last: bool) -> Tensor:
    """``out`` with the gradients of the maxima summed at the winners; both are dense."""
    if not out.numel():
        return out
    sizes = *out.shape[1:], *grad.shape[2:]
    kernel, stride, padding, dilation = zip(window[::2], window[1::2], strict=True)
    windows = Window(kernel, stride, padding, dilation, False)
    # Along a row, cells written by windows are a stride apart, and such stores are several times slower.
    if last and not windows.overlaps:
        if windows.leaves_out(*out.shape[2:]):
            out.zero_()
        _deal(grad.shape, last, (grad, winners, out), sizes, window)
    else:
        _collect(out.shape, last, (grad, winners, out), sizes, window)
    return out


def _max(x: Tensor, window: list[int], rows: int, columns: int) -> tuple[Tensor, Tensor]:
    x, last = dense(x)
    return pool(x, tuple(window), (rows, columns), last)


def _spread(grad: Tensor, winners: Tensor, window: list[int], height: int, width: int, last: bool) -> Tensor:
    layout = memory_format(last)
    grad, winners = grad.contiguous(memory_format=layout), winners.contiguous(memory_format=layout)
    return spread(grad, winners, tuple(window), empty(grad, (height, width), grad.dtype, last), last)


# Custom operators for torch's compiler only: calling one takes longer than the kernel.
_traced_max = torch.library.custom_op("cnnpool::triton_max_pool2d", _max, mutates_args=())
_traced_spread = torch.library.custom_op("cnnpool::triton_max_pool2d_backward", _spread, mutates_args=())


@_traced_max.register_fake
def _(x: Tensor, window: list[int], rows: int, columns: int) -> tuple[Tensor, Tensor]:
    last = dense(x)[1]
    return empty(x, (rows, columns), x.dtype, last), empty(x, (rows, columns), torch.uint8, last)


@_traced_spread.register_fake
def _(grad: Tensor, winners: Tensor, window: list[int], height: int, width: int, last: bool) -> Tensor:
    return empty(grad, (height, width), grad.dtype, last)


def _flat(window: Window) -> list[int]:
    return [number for pair in window[:4] for number in pair]


def forward(x: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Maxima and the first winners, both (N, C, H', W')."""
    find = _traced_max if torch.compiler.is_compiling() else _max
    return find(x, _flat(window), *window.output_size(x.shape[2], x.shape[3]))


def backward(grad: Tensor, winners: Tensor, window: Window, size: tuple[int, int], last: bool) -> Tensor:
    """Gradient of the (N, C, *size) input; half precision is summed in float32 and rounded once."""
    send = _traced_spread if torch.compiler.is_compiling() else _spread
    return send(grad, winners, _flat(window), *size, last)
