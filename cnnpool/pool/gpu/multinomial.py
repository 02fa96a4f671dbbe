"""One value of each window drawn with probability proportional to it, or the weighted mean, on a GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.gpu.places import OverLines, at, cell_of, dense, empty, frame
from cnnpool.pool.window import Window, memory_format

NOWHERE = tl.constexpr(255)


@triton.jit
def _positive(value):
    return tl.where(value < 0, 0.0, value)


@triton.jit
def _total(
    x, plane, r, c, along, real, height, width, channels,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr,
):  # fmt: skip
    # The largest value of each window, a scale, and the sum of values times it.
    top = tl.zeros((down, across), wide)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            source, inside = cell_of(
                plane, r, c, along, real, i, j, height, width, channels, sh, sw, ph, pw, last
            )
            value = _positive(tl.load(x + source, inside, other=0.0).to(wide))
            top = tl.where((value > top) | (value != value), value, top)
    # A power of 2, so that sums of the largest numbers stay finite and shares of the smallest exact.
    small: tl.constexpr = 2.0**-500 if wide == tl.float64 else 2.0**-60
    scale = tl.full((down, across), small, wide)
    scale = tl.where(top > 1, scale, 1 / scale)
    total = tl.zeros((down, across), wide)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            source, inside = cell_of(
                plane, r, c, along, real, i, j, height, width, channels, sh, sw, ph, pw, last
            )
            total += _positive(tl.load(x + source, inside, other=0.0).to(wide)) * scale
    return top, scale, total


@triton.jit
def _window(
    x, y, winners, uniforms, channels, height, width, rows, columns, count, extent,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, drawn: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    plane, r, c, along, real = frame(count, extent, rows, columns, last, down, across, big)
    top, scale, total = _total(
        x, plane, r, c, along, real, height, width, channels,
        kh, kw, sh, sw, ph, pw, last, wide, down, across,
    )  # fmt: skip
    finite = top < float("inf")
    out = at(plane, r, c, along, rows, columns, channels, last)
    result, ladder = tl.zeros((down, across), wide), tl.zeros((down, across), wide)
    place = tl.full((down, across), -1, tl.int32)
    share = tl.where(total == 0, 1.0, total)
    if drawn:
        threshold = (1 - tl.load(uniforms + out, real, other=0.0).to(wide)) * total
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            source, inside = cell_of(
                plane, r, c, along, real, i, j, height, width, channels, sh, sw, ph, pw, last
            )
            raw = tl.load(x + source, inside, other=0.0).to(wide)
            value = _positive(raw) * scale
            if drawn:
                ladder += value
                here = (place < 0) & ((threshold <= ladder) | (i * kw + j == kh * kw - 1))
                # A cell that is negative or outside the map gives no winner.
                place = tl.where(here, tl.where(inside & (raw >= 0), i * kw + j, NOWHERE), place)
                result = tl.where(here, value, result)
            else:
                result += value / share * value
    result = tl.where(finite, result / scale, top)
    tl.store(y + out, result.to(y.dtype.element_ty), real)
    if drawn:
        tl.store(winners + out, tl.where(finite, place, NOWHERE).to(tl.uint8), real)


_window = OverLines(_window)


def drawn(x: Tensor, uniforms: Tensor, window: Window) -> tuple[Tensor, Tensor, bool, bool]:
    """Draws by ``uniforms`` in [0, 1), the winners (255: none), then True, as a window that is not finite
    already gives its largest number, and False, as some windows may have no winner.
    """
    return *_windows(x, window, uniforms), True, False


def expected(x: Tensor, window: Window) -> Tensor:
    """Sums of squares over sums (N, C, H', W')."""
    return _windows(x, window, None)[0]


def _windows(x: Tensor, window: Window, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    x, last = dense(x)
    size = window.output_size(x.shape[2], x.shape[3])
    y, winners = empty(x, size, x.dtype, last), empty(x, size, torch.uint8, last)
    if y.numel():
        layout = memory_format(last)
        chances = y if uniforms is None else uniforms.contiguous(memory_format=layout)
        constants = *window.kernel, *window.stride, *window.padding, uniforms is not None
        _window(y.shape, last, (x, y, winners, chances), (*x.shape[1:], *size), constants)
    return y, winners
