"""Max pooling under autograd: winners route gradients, to any order and in both modes.

``winners`` locates each maximum. With ties "first" or "last" it is the place of one cell in its window,
row * kernel width + column; with "split" it has the bit 1 << place set for every cell that equals the
maximum.
"""

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from cnnpool.pool.autograd.linear import LinearMap
from cnnpool.pool.cells import added, cell_views, cells
from cnnpool.pool.dispatch import is_torchs, kernels
from cnnpool.pool.window import Window, is_channels_last, laid_out, memory_format, wide

Ties = Literal["first", "last", "split"]
SMALL_INTEGERS = (torch.int8, torch.uint8, torch.int16)
"""torch refuses a channels_last map of them that has more numbers than they can count."""


class Route(NamedTuple):
    """Everything except the winners that is needed to route a gradient back."""

    window: Window
    ties: Ties
    size: tuple[int, int]
    channels_last: bool


def maxima(x: Tensor, window: Window, ties: Ties) -> tuple[Tensor, Tensor]:
    """Maxima and winners, both (N, C, H', W'), of ``x`` (N, C, H, W)."""
    kernel = kernels("max", x, cells=window.cells) if ties == "first" else None
    if kernel is not None:
        found: tuple[Tensor, Tensor] = kernel.forward(x, window)
        return found
    small = x.dtype in SMALL_INTEGERS
    y, index = F.max_pool2d(x.contiguous() if small else x, *window, return_indices=True)
    if small:
        y, index = (laid_out(t, is_channels_last(x)) for t in (y, index))
    if ties == "first":
        return y, places_of(index, window, x.shape[-2], x.shape[-1])
    lowest = -torch.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    real = torch.ones((1, 1, *x.shape[-2:]), dtype=torch.bool, device=x.device)
    winners = torch.zeros_like(y, dtype=winners_dtype(window.kernel, ties))
    views = zip(cells(x, window, lowest), cells(real, window, False), strict=True)
    for place, (cell, inside) in enumerate(views):
        # NaN equals nothing, but a NaN in the window is its maximum.
        equal = ((cell == y) | (cell != cell)) & inside
        if ties == "last":
            winners.masked_fill_(equal, place)
        else:
            winners |= equal.to(winners.dtype) << place
    return y, winners


def _scatter(grad: Tensor, route: Route, winners: Tensor) -> Tensor:
    """Gradient of the (N, C, *size) input: each output's gradient added at its winners."""
    window, ties, size, channels_last = route
    kernel = kernels("max", grad, cells=window.cells) if ties != "split" else None
    out: Tensor
    if kernel is not None:
        out = kernel.backward(grad, winners, window, size, channels_last)
        return out
    # Summed in float32 and rounded once; torch's own kernel rounds after every addition.
    exact = wide(grad) if window.overlaps or ties == "split" else grad
    shape, layout = (*grad.shape[:2], *size), memory_format(channels_last)
    if ties == "split":
        return laid_out(_share(exact, winners, window, shape).to(grad.dtype), channels_last)
    like = torch.empty(shape, dtype=exact.dtype, device=exact.device, memory_format=layout)
    index = indices_of(winners, window, *size)
    out = torch.ops.aten.max_pool2d_with_indices_backward(exact, like, *window, index)
    return out.to(grad.dtype)


def _gather(x: Tensor, route: Route, winners: Tensor) -> Tensor:
    """``x`` (N, C, H, W) read at the winners, their mean for "split": the adjoint of ``_scatter``."""
    window = route.window
    if route.ties == "split":
        return _mean_at(wide(x), winners, window, 0).to(x.dtype)
    index = indices_of(winners, window, *x.shape[-2:])
    read = x.flatten(2).gather(2, index.flatten(2)).view(index.shape)
    return read.clone(memory_format=torch.preserve_format)


def _mean_at(x: Tensor, winners: Tensor, window: Window, beyond: Tensor | int) -> Tensor:
    """The mean over the winners of each window of their distance from ``beyond``."""
    parts = enumerate(cells(x, window))
    total = added(torch.where(_won(winners, place), part - beyond, 0) for place, part in parts)
    return total / _count(winners, window)


def winners_dtype(kernel: tuple[int, int], ties: Ties) -> torch.dtype:
    """The smallest integer type that holds the winners, or a ValueError for too many cells to split."""
    limits = [(256, torch.uint8), (1 << 15, torch.int16), (1 << 31, torch.int32)]
    if ties == "split":
        limits = [(8, torch.uint8), (15, torch.int16), (31, torch.int32), (63, torch.int64)]
    for most, dtype in limits:
        if kernel[0] * kernel[1] <= most:
            return dtype
    raise ValueError(f"ties={ties!r} takes windows of at most {most} cells, got kernel_size={kernel}")


def _working_dtype(window: Window, height: int, width: int) -> torch.dtype:
    # The narrowest type that fits: memory traffic is the whole cost.
    for dtype in (torch.int16, torch.int32):
        if max(height * width, window.cells) <= torch.iinfo(dtype).max:
            return dtype
    return torch.int64


def _starts(like: Tensor, window: Window, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """First row (H', 1) and first column (W',) of every window, in the input's coordinates."""
    top, left = (
        torch.arange(count, dtype=dtype, device=like.device) * s - p
        for count, s, p in zip(like.shape[-2:], window.stride, window.padding, strict=True)
    )
    return top[:, None], left


def places_of(index: Tensor, window: Window, height: int, width: int) -> Tensor:
    """The inverse of ``indices_of``."""
    dtype = _working_dtype(window, height, width)
    top, left = _starts(index, window, dtype)
    index = index.to(dtype)
    row = torch.div(index, width, rounding_mode="floor")
    column = index.sub_(row * width).sub_(left)
    row = row.sub_(top)
    if window.dilation != (1, 1):
        row = torch.div(row, window.dilation[0], rounding_mode="floor")
        column = torch.div(column, window.dilation[1], rounding_mode="floor")
    return row.mul_(window.kernel[1]).add_(column).to(winners_dtype(window.kernel, "first"))


def indices_of(winners: Tensor, window: Window, height: int, width: int) -> Tensor:
    """Row * ``width`` + column in the plane of each winner, int64, for ties "first" or "last"."""
    dtype = _working_dtype(window, height, width)
    top, left = _starts(winners, window, dtype)
    place = winners.to(dtype)
    row = torch.div(place, window.kernel[1], rounding_mode="floor")
    column = (place - row * window.kernel[1]).mul_(window.dilation[1]).add_(left)
    return row.mul_(window.dilation[0]).add_(top).mul_(width).add_(column).long()


def _won(winners: Tensor, place: int) -> Tensor:
    return (winners >> place) & 1 != 0


def _count(winners: Tensor, window: Window) -> Tensor:
    count = torch.zeros_like(winners, dtype=torch.uint8)
    for place in range(window.cells):
        count += _won(winners, place)
    return count


def _share(grad: Tensor, winners: Tensor, window: Window, shape: tuple[int, ...]) -> Tensor:
    left, right, top, bottom = window.pads(*shape[2:])
    padded = grad.new_zeros((*shape[:2], shape[2] + top + bottom, shape[3] + left + right))
    share = grad / _count(winners, window)
    for place, cell in enumerate(cell_views(padded, window, *grad.shape[-2:])):
        cell += torch.where(_won(winners, place), share, 0)
    # A negative padding crops to a fresh tensor: batched gradients cannot pass through a full slice.
    return F.pad(padded, (-left, -right, -top, -bottom))


AT_WINNERS = LinearMap(_gather, _scatter)


def scatter(grad: Tensor, winners: Tensor, route: Route) -> Tensor:
    """Gradient of the input: the gradient of each maximum, at its winners."""
    return AT_WINNERS.transposed(grad, route, winners)


def routed_maxima(x: Tensor, window: Window, ties: Ties) -> tuple[Tensor, Tensor]:
    """``maxima``, whose gradients go to the winners."""
    route = Route(window, ties, (x.shape[2], x.shape[3]), is_channels_last(x))
    if torch.is_grad_enabled() and not is_torchs(x):
        found: tuple[Tensor, Tensor] = Max.apply(x, route)
        return found
    y, winners = maxima(x.detach(), window, ties)
    if is_torchs(x):
        y = _read(x, y, route, winners)
    return y, winners


def _read(x: Tensor, y: Tensor, route: Route, winners: Tensor) -> Tensor:
    """The maxima ``y`` again, by differentiable operators of torch; gradients are summed in float32."""
    exact, largest = wide(x), wide(y)
    if route.ties != "split":
        return _gather(exact, route, winners).to(x.dtype)
    # A sum of equals would be rounded: only distances of 0 are averaged.
    base = torch.where(largest.isfinite(), largest, 0)
    return (base + _mean_at(exact, winners, route.window, base)).to(x.dtype)


class Max(Function):
    """(x, route) -> (maxima, winners); saves only the winners."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, route: Route) -> tuple[Tensor, Tensor]:
        y, winners = maxima(x, route.window, route.ties)
        ctx.route = route
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(winners)
        ctx.save_for_backward(winners)
        return y, winners

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, None]:
        (winners,) = ctx.saved_tensors
        return None if grad is None else scatter(grad, winners, ctx.route), None
